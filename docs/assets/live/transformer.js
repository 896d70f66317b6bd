// The arithmetic of tinyattn in the browser: the same steps under the same names.
//
// A vector is a row, so a weight acts from the right. Rows of scores and of a pattern are the
// positions that read, columns the positions that are read. Numbers are kept in single precision,
// as in the package; a sum is formed in double precision and rounded once.
//
//     project → scores → pattern → mix → write
//
// A classic script with one global, so that it works from a file as well.
window.tinyattn = window.tinyattn || (function () {
  "use strict";

  // Matrices: rows one behind the other.

  function matrix(rows, columns, data) {
    return { rows: rows, columns: columns, data: data || new Float32Array(rows * columns) };
  }

  // A matrix from lists: [[1, 2], [3, 4]]. It keeps nothing of the lists.
  function from(lists) {
    const made = matrix(lists.length, lists[0].length);
    lists.forEach(function (list, i) {
      if (list.length !== made.columns) {
        throw new Error("from: row " + i + " has " + list.length + " entries and row 0 has " +
          made.columns + ": give rows of one length");
      }
      made.data.set(list, i * made.columns);
    });
    return made;
  }

  function row(a, i) {
    return a.data.subarray(i * a.columns, (i + 1) * a.columns);
  }

  // The lists of a matrix, the inverse of from.
  function lists(a) {
    return Array.from({ length: a.rows }, function (_, i) { return Array.from(row(a, i)); });
  }

  function dot(a, b) {
    let sum = 0;
    for (let n = 0; n < a.length; n++) sum += a[n] * b[n];
    return sum;
  }

  // a @ b
  function times(a, b) {
    if (a.columns !== b.rows) {
      throw new Error("times: " + a.rows + " × " + a.columns + " and " + b.rows + " × " +
        b.columns + " do not fit: the columns of the first must be the rows of the second");
    }
    const product = matrix(a.rows, b.columns), sums = new Float64Array(b.columns);
    for (let i = 0; i < a.rows; i++) {
      sums.fill(0);
      for (let n = 0; n < a.columns; n++) {
        const factor = a.data[i * a.columns + n], at = n * b.columns;
        if (factor === 0) continue;
        for (let j = 0; j < b.columns; j++) sums[j] += factor * b.data[at + j];
      }
      product.data.set(sums, i * b.columns);
    }
    return product;
  }

  function plus(a, b) {
    const sum = matrix(a.rows, a.columns, a.data.slice());
    for (let n = 0; n < sum.data.length; n++) sum.data[n] += b.data[n];
    return sum;
  }

  // One head, in the order in which it happens.

  // What each position's vector looks like through one weight.
  function project(x, W) {
    return times(x, W);
  }

  // How well each query matches each key, divided by the root of d_head.
  function scores(q, k) {
    const S = matrix(q.rows, k.rows), width = q.columns, root = Math.sqrt(width);
    for (let i = 0; i < q.rows; i++) {
      for (let j = 0; j < k.rows; j++) {
        let sum = 0;
        for (let n = 0; n < width; n++) sum += q.data[i * width + n] * k.data[j * width + n];
        S.data[i * k.rows + j] = sum / root;
      }
    }
    return S;
  }

  // Whether position i may look at position j: at itself and at everything before it.
  function causal(i, j) {
    return j <= i;
  }

  // −∞ where a query may not look.
  function maskScores(S, mask) {
    const seen = matrix(S.rows, S.columns, S.data.slice());
    for (let i = 0; i < S.rows; i++) {
      for (let j = 0; j < S.columns; j++) {
        if (!mask(i, j)) seen.data[i * S.columns + j] = -Infinity;
      }
    }
    return seen;
  }

  function softmax(values) {
    const most = Math.max.apply(null, values), odds = new Float64Array(values.length);
    let sum = 0;
    for (let n = 0; n < odds.length; n++) sum += odds[n] = Math.exp(values[n] - most);
    return new Float32Array(odds.map(function (odd) { return odd / sum; }));
  }

  // Each row of scores as weights that sum to one.
  function pattern(S) {
    const A = matrix(S.rows, S.columns);
    for (let i = 0; i < S.rows; i++) {
      const seen = row(S, i), most = Math.max.apply(null, seen);
      if (most === -Infinity) {
        throw new Error("pattern: query " + i + " may see none of the " + S.columns + " keys");
      }
      if (!Number.isFinite(most)) {
        throw new Error("pattern: a score of query " + i + " is not a finite number");
      }
      A.data.set(softmax(seen), i * S.columns);
    }
    return A;
  }

  // The values under each query's weights.
  function mix(A, v) {
    return times(A, v);
  }

  // What a head took in as a vector of the stream: its write.
  function write(z, W_O) {
    return times(z, W_O);
  }

  // Every step of one head { W_Q, W_K, W_V, W_O } that looks at the stream x.
  // `mask` says whether i may look at j; `added` is added to what queries and keys read.
  function attend(x, head, mask, added) {
    const asked = added ? plus(x, added) : x;
    const q = project(asked, head.W_Q), k = project(asked, head.W_K), v = project(x, head.W_V);
    const S = mask ? maskScores(scores(q, k), mask) : scores(q, k);
    const A = pattern(S), z = mix(A, v);
    return { q: q, k: k, v: v, scores: S, pattern: A, z: z, out: write(z, head.W_O) };
  }

  // A whole model: attention only, with positions added to what queries and keys read.

  // One pass. `off` lists heads that write nothing, "1.2" for head 2 of layer 1; what they look at
  // is computed all the same. The stream is kept before each layer and after the last.
  function run(model, tokens, off) {
    const silent = new Set(off || []);
    const added = matrix(tokens.length, model.W_pos.columns,
      model.W_pos.data.slice(0, tokens.length * model.W_pos.columns));
    let x = matrix(tokens.length, model.W_E.columns);
    tokens.forEach(function (token, i) { x.data.set(row(model.W_E, token), i * x.columns); });
    const stream = [x], layers = [];
    model.layers.forEach(function (heads, layer) {
      const attended = heads.map(function (head, number) {
        const steps = attend(x, head, causal, added);
        if (silent.has(layer + "." + number)) {
          steps.z = matrix(steps.z.rows, steps.z.columns);
          steps.out = matrix(x.rows, x.columns);
        }
        return steps;
      });
      layers.push(attended);
      x = attended.reduce(function (sum, steps) { return plus(sum, steps.out); }, x);
      stream.push(x);
    });
    return {
      model: model, tokens: tokens, off: silent, stream: stream, layers: layers,
      logits: times(x, model.W_U),
    };
  }

  // What position i says of the next token: the chance of each.
  function chances(run, i) {
    return softmax(row(run.logits, i));
  }

  // What is read of the chosen logit, as a direction in the stream: W_U[:, token].
  function direction(model, token) {
    return Float32Array.from({ length: model.W_U.rows }, function (_, n) {
      return model.W_U.data[n * model.W_U.columns + token];
    });
  }

  // How much each writer adds to a logit at position i: { name, value } each, in order.
  function writers(run, i, token) {
    const u = direction(run.model, token);
    const found = [{ name: "embed", value: dot(row(run.stream[0], i), u) }];
    run.layers.forEach(function (heads, layer) {
      heads.forEach(function (steps, number) {
        found.push({ name: layer + "." + number, value: dot(row(steps.out, i), u) });
      });
    });
    return found;
  }

  // The same logit as a sum over paths: straight, through one head, or through one after another,
  // "0.2 → 1.6". The patterns are those of the run. Paths through a head that is off are left out.
  function paths(run, i, token) {
    const found = [];
    // Backwards: the rest of the path reads each position by its weight, along a direction u.
    function follow(chain, weights, u, depth) {
      let value = 0;
      weights.forEach(function (weight, j) {
        if (weight) value += weight * dot(row(run.stream[0], j), u);
      });
      found.push({ name: chain.join(" → ") || "embed", value: value, length: chain.length });
      for (let layer = 0; layer < depth; layer++) {
        run.layers[layer].forEach(function (steps, number) {
          const name = layer + "." + number, head = run.model.layers[layer][number];
          if (run.off.has(name)) return;
          const read = new Float64Array(weights.length);
          weights.forEach(function (weight, q) {
            for (let k = 0; weight && k < read.length; k++) {
              read[k] += weight * steps.pattern.data[q * read.length + k];
            }
          });
          follow([name].concat(chain), read, through(head.W_V, through(head.W_O, u)), layer);
        });
      }
    }
    const here = new Float64Array(run.tokens.length);
    here[i] = 1;
    follow([], here, direction(run.model, token), run.layers.length);
    return found.sort(function (a, b) {
      return a.length - b.length || a.name.localeCompare(b.name, "en", { numeric: true });
    });
  }

  // W @ u: what a direction behind a weight is before it.
  function through(W, u) {
    return Float64Array.from({ length: W.rows }, function (_, n) { return dot(row(W, n), u); });
  }

  // What a head does, told by where it looks.

  // Whether key j follows an earlier copy of the token of query i, and is not the query itself.
  function follower(tokens, i, j) {
    return j > 0 && j < i && tokens[j - 1] === tokens[i];
  }

  function previous(tokens, i, j) {
    return j === i - 1;
  }

  // How much of its attention a head spends on wanted keys, on average over the queries that want
  // one: 1 is all, 0 is none. NaN, if no query wants a key.
  function detect(A, tokens, wanted) {
    let weight = 0, asking = 0;
    for (let i = 0; i < A.rows; i++) {
      let any = false;
      for (let j = 0; j < A.columns; j++) {
        if (!wanted(tokens, i, j)) continue;
        any = true;
        weight += A.data[i * A.columns + j];
      }
      if (any) asking++;
    }
    return weight / asking;
  }

  function inductionScore(A, tokens) {
    return detect(A, tokens, follower);
  }

  function previousTokenScore(A, tokens) {
    return detect(A, tokens, previous);
  }

  // Positions whose next token can be known: it has followed the same token before.
  function known(tokens) {
    return tokens.map(function (_, i) { return i; }).filter(function (i) {
      return tokens.some(function (token, j) {
        return follower(tokens, i, j) && token === tokens[i + 1];
      });
    });
  }

  // The mean of −log p of the right next token over some positions, in nats. NaN over none.
  function loss(run, positions) {
    const lost = positions.map(function (i) {
      const logits = row(run.logits, i), most = Math.max.apply(null, logits);
      const odds = logits.reduce(function (sum, value) { return sum + Math.exp(value - most); }, 0);
      return most + Math.log(odds) - logits[run.tokens[i + 1]];
    });
    return lost.reduce(function (a, b) { return a + b; }, 0) / lost.length;
  }

  // Text as tokens, by the merges of byte-pair encoding.

  const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029" +
    "\\u202f\\u205f\\u3000";
  const WORD = new RegExp(" ?[A-Za-z']+| ?[^" + SPACE + "A-Za-z']+|[" + SPACE + "]", "gu");

  // Tokens are the start, the characters, and what the merges make of them.
  function vocabulary(characters, merges) {
    const tokens = ["<start>"].concat(characters), ranks = new Map();
    merges.forEach(function (pair) {
      ranks.set(pair[0] * 65536 + pair[1], tokens.length);
      tokens.push(tokens[pair[0]] + tokens[pair[1]]);
    });
    const numbers = new Map(tokens.map(function (token, n) { return [token, n]; }));
    numbers.delete(tokens[0]);
    return { tokens: tokens, numbers: numbers, ranks: ranks };
  }

  // { numbers } of the text, or { unknown } with the first character that has no token.
  function encode(words, text) {
    const seen = new Map(), numbers = [];
    for (const word of text.match(WORD) || []) {
      if (!seen.has(word)) seen.set(word, encodeWord(words, word));
      const found = seen.get(word);
      if (found.unknown !== undefined) return found;
      for (const number of found.numbers) numbers.push(number);
    }
    return { numbers: numbers };
  }

  function encodeWord(words, word) {
    let numbers = [];
    for (const character of word) {
      if (!words.numbers.has(character)) return { unknown: character };
      numbers.push(words.numbers.get(character));
    }
    for (;;) {
      let first = Infinity, at = 0;
      for (let n = 0; n + 1 < numbers.length; n++) {
        const made = words.ranks.get(numbers[n] * 65536 + numbers[n + 1]);
        if (made < first) { first = made; at = n; }
      }
      if (first === Infinity) return { numbers: numbers };
      numbers = merged(numbers, numbers[at], numbers[at + 1], first);
    }
  }

  // One token where two stood, from left to right.
  function merged(numbers, a, b, made) {
    const found = [];
    for (let n = 0; n < numbers.length; n++) {
      if (numbers[n] === a && numbers[n + 1] === b) { found.push(made); n++; }
      else found.push(numbers[n]);
    }
    return found;
  }

  function decode(words, numbers) {
    return numbers.map(function (number) { return words.tokens[number]; }).join("");
  }

  // Weights, as the build writes them: half precision, the low bytes in base64, and a character
  // for each high byte, which compresses where base64 does not.

  function unpack(packed) {
    const low = atob(packed.low), high = packed.high, order = packed.letters;
    const bytes = new Uint8Array(512), powers = new Float64Array(32);
    packed.bytes.forEach(function (byte, n) { bytes[order.charCodeAt(n)] = byte; });
    for (let e = 0; e < 32; e++) powers[e] = Math.pow(2, Math.max(e, 1) - 25);
    const numbers = new Float32Array(low.length);
    for (let n = 0; n < numbers.length; n++) {
      const top = bytes[high.charCodeAt(n)], exponent = (top >> 2) & 31;
      const fraction = ((top & 3) << 8) | low.charCodeAt(n);
      const size = (exponent ? 1024 + fraction : fraction) * powers[exponent];
      numbers[n] = top & 128 ? -size : size;
    }
    const weights = {};
    let at = 0;
    packed.shapes.forEach(function (entry) {
      const name = entry[0], shape = entry[1];
      const columns = shape[shape.length - 1], rows = shape[shape.length - 2];
      const several = Array.from({ length: shape.length > 2 ? shape[0] : 1 }, function () {
        at += rows * columns;
        return matrix(rows, columns, numbers.subarray(at - rows * columns, at));
      });
      weights[name] = shape.length > 2 ? several : several[0];
    });
    return assembled(weights);
  }

  // Weights by name as a model: { W_E, W_pos, W_U, layers[layer][head] }.
  function assembled(weights) {
    const layers = [];
    for (let l = 0; weights["blocks." + l + ".W_Q"]; l++) {
      const of = function (name) { return weights["blocks." + l + "." + name]; };
      layers.push(of("W_Q").map(function (W_Q, h) {
        return { W_Q: W_Q, W_K: of("W_K")[h], W_V: of("W_V")[h], W_O: of("W_O")[h] };
      }));
    }
    return { W_E: weights.W_E, W_pos: weights.W_pos, W_U: weights.W_U, layers: layers };
  }

  return {
    matrix: matrix, from: from, lists: lists, row: row, dot: dot, times: times, plus: plus,
    project: project, scores: scores, causal: causal, maskScores: maskScores, softmax: softmax,
    pattern: pattern, mix: mix, write: write, attend: attend, run: run, chances: chances,
    writers: writers, paths: paths, follower: follower, detect: detect,
    inductionScore: inductionScore, previousTokenScore: previousTokenScore, known: known,
    loss: loss, vocabulary: vocabulary, encode: encode, decode: decode, unpack: unpack,
    packed: {},
  };
})();
