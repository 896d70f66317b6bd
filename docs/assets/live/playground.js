// The playground: a trained model runs in the page. The arithmetic is tinyattn's (transformer.js);
// this script shows it. What a reader typed is only ever written as text, never as HTML.
(function () {
  "use strict";
  const root = document.getElementById("playground");
  if (!root || root.dataset.live) return;
  root.dataset.live = "waiting";
  const folder = new URL("weights/", document.currentScript.src).href;
  const T = window.tinyattn;
  const SVG = "http://www.w3.org/2000/svg";
  const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789?";
  const MODELS = {
    "text-2l": {
      name: "text",
      most: 64,
      says: "It has read the King James Bible, with lists of repeated words among it.",
      examples: {
        "A name, twice": "Zorobabel went up unto the city. And the men said, Zorobabel",
        "A list, twice": "wood river gold sheep tower wine wood river gold sheep tower",
        "A made-up name": "And Mizraphel took a wife. And the servant of Mizra",
        "A verse": "In the beginning God created the heaven and the earth.",
      },
    },
    "induction-2l": {
      name: "repeats",
      most: 48,
      says: "It has read nothing but rows of random tokens, repeated. Here they are letters and " +
        "digits.",
      examples: {
        "PLANETS, twice": "PLANETSPLANETS",
        "Three times": "xK4rmxK4rmxK4rm",
        "With a slip": "ABCDEFGHABCDXFGH",
        "No repeat": "ABCDEFGHIJKL",
      },
    },
  };

  // What is chosen. `tokens` begin with the start token; `at` is the position that is looked at.
  const state = {
    model: "text-2l", text: "", tokens: [0], at: 0, head: "", off: new Set(), logit: null,
    terms: "heads",
  };
  const ready = {}; // by model: { model, words }
  let all = null, now = null; // the runs with every head on, and as switched

  // Making elements.

  function make(tag, attributes, children) {
    const made = document.createElement(tag);
    Object.entries(attributes || {}).forEach(function (entry) {
      const name = entry[0], value = entry[1];
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (name in made && typeof value !== "string") made[name] = value;
      else made.setAttribute(name, value);
    });
    [].concat(children === undefined ? [] : children).forEach(function (child) {
      made.append(child);
    });
    return made;
  }

  function draw(tag, attributes, text) {
    const made = document.createElementNS(SVG, tag);
    Object.entries(attributes).forEach(function (entry) {
      made.setAttribute(entry[0], entry[1]);
    });
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // A token so that everything in it can be seen. It keeps its own writing direction.
  function visible(token) {
    return token.replace(/^ | $/g, "␣").replace(/\n/g, "⏎") || "∅";
  }

  function word(number) {
    return number === 0 ? "start" : visible(ready[state.model].words.tokens[number]);
  }

  function token(number) {
    return make("bdi", { class: "token" }, word(number));
  }

  function percent(chance) {
    return chance > 0.9995 ? "100%" : (100 * chance).toFixed(1) + "%";
  }

  function signed(value) {
    return (value <= -0.005 ? "−" : "+") + Math.abs(value).toFixed(2);
  }

  // Names come from addresses, too, and every object has a toString.
  function has(object, name) {
    return Object.prototype.hasOwnProperty.call(object, name);
  }

  // The frame of the page, made once.

  const parts = {};
  function build() {
    function part(name, tag, attributes, children) {
      return (parts[name] = make(tag, attributes, children));
    }
    const models = Object.entries(MODELS).map(function (entry) {
      return make("label", {}, [
        make("input", {
          type: "radio", name: "playground-model", value: entry[0],
          checked: entry[0] === state.model, onchange: function () { choose(entry[0]); },
        }),
        " " + entry[1].name,
      ]);
    });
    const terms = ["heads", "paths"].map(function (kind) {
      return make("label", {}, [
        make("input", {
          type: "radio", name: "playground-terms", value: kind, checked: kind === state.terms,
          onchange: function () { state.terms = kind; show(); },
        }),
        " by " + kind,
      ]);
    });
    const made = [
      make("div", { class: "pg-bar" }, [
        make("fieldset", {}, [make("legend", {}, "Model")].concat(models)),
        part("examples", "div", { class: "pg-examples", role: "group", "aria-label": "Examples" }),
      ]),
      part("says", "p", { class: "pg-quiet" }),
      make("label", { class: "pg-label", for: "pg-text" }, "Text"),
      part("text", "textarea", {
        id: "pg-text", rows: "2", dir: "auto", spellcheck: "false", autocomplete: "off",
        autocapitalize: "off", oninput: soon, "aria-describedby": "pg-status",
      }),
      part("status", "p", { id: "pg-status", class: "pg-status", role: "status" }),
      make("p", { class: "pg-label", id: "pg-tokens" },
        "Tokens: choose the one whose next token is asked for"),
      part("tokens", "div", {
        class: "pg-tokens", role: "group", "aria-labelledby": "pg-tokens", onkeydown: walkTokens,
      }),
      part("picker", "details", { class: "pg-pick", ontoggle: offer }, [
        make("summary", {}, "Pick a token instead of typing"),
        make("div", { class: "pg-bar" }, [
          part("pick", "select", { "aria-label": "A token of the vocabulary" }),
          make("button", { type: "button", onclick: function () { put(1); } }, "Put it behind"),
          make("button", { type: "button", onclick: function () { put(0); } }, "Replace"),
          make("button", { type: "button", onclick: remove }, "Remove the chosen one"),
        ]),
      ]),
      make("div", { class: "pg-bar pg-head" }, [
        make("p", { class: "pg-label" }, "Every head: choose one, or switch it off"),
        part("allOn", "button", {
          type: "button", onclick: function () { state.off.clear(); show(); },
        }, "All heads on"),
      ]),
      part("heads", "div", { class: "pg-heads" }),
      make("p", { class: "pg-quiet" },
        "In each square a row reads, a column is read; position 0 is top left."),
      make("div", { class: "pg-columns" }, [
        make("section", { "aria-labelledby": "pg-one" }, [
          part("one", "p", { class: "pg-label", id: "pg-one" }),
          part("large", "div", {
            class: "pg-large", tabindex: "0", role: "application",
            "aria-roledescription": "attention pattern", "aria-labelledby": "pg-one",
            "aria-describedby": "pg-cell", onkeydown: walkCells,
            onpointermove: pointed, onpointerdown: pointed,
          }),
          part("cell", "p", { class: "pg-status", id: "pg-cell", role: "status" }),
          part("stripe", "p", { class: "pg-quiet" }),
        ]),
        make("section", { "aria-labelledby": "pg-next" }, [
          part("next", "p", { class: "pg-label", id: "pg-next" }),
          part("right", "p", { class: "pg-quiet" }),
          part("chances", "div", { class: "pg-chances" }),
          part("write", "button", {
            type: "button", onclick: function () { write(state.logit); },
          }),
          part("loss", "p", { class: "pg-status", role: "status" }),
          make("div", { class: "pg-bar pg-head" }, [
            part("carries", "p", { class: "pg-label" }),
            make("fieldset", {}, [make("legend", { class: "pg-hidden" }, "Terms")].concat(terms)),
          ]),
          part("terms", "div", { class: "pg-terms" }),
          part("sum", "p", { class: "pg-quiet" }),
        ]),
      ]),
      make("details", { class: "pg-pick" }, [
        make("summary", {}, "The same in Python"),
        make("div", { class: "pg-code" },
          make("pre", {}, part("code", "code", { tabindex: "0", "aria-label": "Code" }))),
        make("button", { type: "button", onclick: copyCode }, "Copy the code"),
        make("button", { type: "button", onclick: copyLink }, "Copy a link to what is shown"),
      ]),
    ];
    root.replaceChildren.apply(root, made);
  }

  // Models and text.

  // The model of a name: its script is added to the page when it is first asked for.
  function load(name) {
    if (ready[name]) return Promise.resolve(ready[name]);
    return new Promise(function (resolve, reject) {
      if (T.packed[name]) return resolve();
      const script = document.createElement("script");
      script.src = folder + name + ".js";
      script.onload = resolve;
      script.onerror = function () { reject(new Error("The weights of the model did not load.")); };
      document.head.append(script);
    }).then(function () {
      const packed = T.packed[name];
      const words = packed.merges
        ? T.vocabulary(packed.characters, packed.merges)
        : T.vocabulary(Array.from(LETTERS), []);
      return (ready[name] = { model: T.unpack(packed), words: words });
    });
  }

  let asked = 0; // of models asked for in a row only the last is shown
  function choose(name, text) {
    const mine = ++asked;
    say("Loading the model …");
    return load(name).then(function () {
      if (mine !== asked || !root.isConnected) return;
      const example = Object.values(MODELS[name].examples)[0];
      state.model = name;
      state.off.clear();
      state.head = "";
      all = null;
      dress();
      parts.text.value = text === undefined ? example : text;
      typed();
      if (all) return;
      take(T.encode(ready[name].words, example).numbers);
      parts.status.append(" What is shown below is an example.");
    }, function (error) {
      if (mine !== asked) return;
      tick();
      say(error.message + " Without them nothing can be computed here; the page below shows the " +
        "same, computed in Python.");
    });
  }

  function tick() {
    root.querySelectorAll("[name=playground-model]").forEach(function (input) {
      input.checked = input.value === state.model;
    });
  }

  // What changes with the model: its examples, its heads, its tokens to pick.
  function dress() {
    const about = MODELS[state.model];
    parts.says.textContent = about.says;
    tick();
    parts.examples.replaceChildren.apply(parts.examples,
      Object.entries(about.examples).map(function (entry) {
        return make("button", {
          type: "button",
          onclick: function () { parts.text.value = entry[1]; typed(); },
        }, entry[0]);
      }));
    parts.pick.replaceChildren();
    offer();
    parts.panels = {};
    parts.heads.replaceChildren.apply(parts.heads,
      ready[state.model].model.layers.flatMap(function (heads, layer) {
        return heads.map(function (_, number) { return panel(layer + "." + number); });
      }));
    parts.heads.style.setProperty("--pg-heads", ready[state.model].model.layers[0].length);
  }

  // A thousand tokens to pick from: made when they are first looked at.
  function offer() {
    if (!parts.picker.open || parts.pick.options.length) return;
    const tokens = ready[state.model].words.tokens.slice(1);
    parts.pick.append.apply(parts.pick, tokens.map(function (text, n) {
      return make("option", { value: String(n + 1) }, visible(text));
    }));
  }

  function say(sentence, character) {
    const said = sentence.split("{}");
    parts.status.replaceChildren(said[0]);
    if (said.length > 1) parts.status.append(make("bdi", {}, character), said[1]);
  }

  // Not for every key: when the fingers rest.
  let waiting = 0;
  function soon() {
    clearTimeout(waiting);
    waiting = setTimeout(typed, 80);
  }

  // The text was changed: its tokens, or a sentence that says why there are none.
  function typed() {
    const text = parts.text.value, about = MODELS[state.model];
    const found = T.encode(ready[state.model].words, text);
    if (found.unknown !== undefined) {
      const code = "U+" + found.unknown.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
      const drawn = /^[\p{L}\p{N}\p{P}\p{S}]$/u.test(found.unknown) ? found.unknown : "the sign";
      const known = ready[state.model].words.tokens.filter(function (token) {
        return /^\S$/.test(token);
      }).join("");
      say("The model has no token for {} (" + code + "). Write with " + known + " " + still(),
        drawn);
      return;
    }
    if (!found.numbers.length) {
      say("There is no text. Type a word, or take an example. " + still());
      return;
    }
    const cut = found.numbers.length + 1 - about.most;
    say(cut > 0
      ? "The text has " + (found.numbers.length + 1) + " tokens with the start token. The first " +
        about.most + " are shown."
      : "");
    take(found.numbers.slice(0, about.most - 1));
  }

  function still() {
    return all ? "What is shown below is still of the tokens you see there." : "";
  }

  function take(numbers, at) {
    state.tokens = [0].concat(numbers);
    state.text = T.decode(ready[state.model].words, numbers);
    state.at = Math.min(at === undefined ? numbers.length : at, numbers.length);
    state.logit = null;
    compute();
  }

  // Tokens were picked: the text follows them.
  function picked(tokens, at) {
    if (tokens.length < 2) return say("One token has to stay.");
    if (tokens.length > MODELS[state.model].most) {
      return say("There is no room for more: " + MODELS[state.model].most +
        " tokens are the most that are shown.");
    }
    say("");
    take(tokens.slice(1), at);
    parts.text.value = state.text;
  }

  function put(behind) {
    if (!behind && state.at === 0) return say("The start token stays where it is.");
    const tokens = state.tokens.slice(), at = state.at + behind;
    tokens.splice(at, behind ? 0 : 1, Number(parts.pick.value));
    picked(tokens, at);
  }

  function remove() {
    if (state.at === 0) return say("The start token stays where it is.");
    picked(state.tokens.filter(function (_, i) { return i !== state.at; }), state.at - 1);
  }

  function write(number) {
    if (number === 0) return say("The start token stands only before a text.");
    picked(state.tokens.slice(0, state.at + 1).concat(number), state.at + 1);
  }

  // Computing and showing.

  function compute() {
    all = T.run(ready[state.model].model, state.tokens);
    all.known = T.known(state.tokens);
    all.scores = scored(all);
    if (!all.scores[state.head]) {
      const names = Object.keys(all.scores);
      const best = function (a, b) {
        return (all.scores[b].induction || 0) > (all.scores[a].induction || 0) ? b : a;
      };
      state.head = names.reduce(best);
    }
    cell = null;
    chips();
    show();
  }

  // Each head's scores, by its name.
  function scored(run) {
    return Object.fromEntries(run.layers.flatMap(function (heads, layer) {
      return heads.map(function (steps, number) {
        return [layer + "." + number, {
          induction: T.inductionScore(steps.pattern, state.tokens),
          previous: T.previousTokenScore(steps.pattern, state.tokens),
        }];
      });
    }));
  }

  function show() {
    now = all;
    if (state.off.size) {
      now = T.run(ready[state.model].model, state.tokens, state.off);
      now.scores = scored(now);
    }
    showTokens();
    showHeads();
    showLarge();
    showChances();
    showLoss();
    showTerms();
    showCode();
    remember();
  }

  function chips() {
    parts.tokens.replaceChildren.apply(parts.tokens, state.tokens.map(function (number, i) {
      return make("button", {
        type: "button", "aria-label": word(number) + ", position " + i,
        onclick: function () { look(i); },
        onpointerenter: function () { point(i, null); },
      }, token(number));
    }));
  }

  function look(i) {
    state.at = i;
    state.logit = null;
    cell = null;
    show();
  }

  function showTokens() {
    Array.from(parts.tokens.children).forEach(function (chip, i) {
      chip.setAttribute("aria-pressed", String(i === state.at));
      chip.tabIndex = i === state.at ? 0 : -1;
    });
  }

  function walkTokens(event) {
    const last = state.tokens.length - 1;
    const to = {
      ArrowRight: Math.min(state.at + 1, last), ArrowLeft: Math.max(state.at - 1, 0),
      Home: 0, End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    look(to);
    parts.tokens.children[to].focus();
  }

  // How opaque a cell is, as in the drawn pictures.
  function shade(weight) {
    const size = Math.round(Math.min(weight, 1) * 100) / 100;
    return size >= 0.5 ? 0.32 + 0.68 * size : Math.max(size, 0.03);
  }

  // A pattern as a few paths: neighbours of one shade are a line, lines of one shade are a path.
  function cells(A) {
    const paths = new Map();
    for (let i = 0; i < A.rows; i++) {
      let start = 0, level = 0;
      for (let j = 0; j <= i + 1; j++) {
        const weight = j <= i ? A.data[i * A.columns + j] : 0;
        const here = weight > 0.02 ? Math.ceil(shade(weight) * 10) : 0;
        if (here === level) continue;
        if (level) {
          paths.set(level, (paths.get(level) || "") + "M" + start + " " + (i + 0.5) + "h" +
            (j - start));
        }
        start = j;
        level = here;
      }
    }
    return Array.from(paths, function (entry) {
      return draw("path", { "stroke-opacity": entry[0] / 10, d: entry[1] });
    });
  }

  function square(A, attributes) {
    const n = A.rows;
    const svg = draw("svg", Object.assign({
      viewBox: "0 0 " + n + " " + n, class: "pg-cells", "aria-hidden": "true",
    }, attributes));
    svg.append.apply(svg, cells(A));
    return svg;
  }

  function panel(name) {
    const made = parts.panels[name] = {};
    made.button = make("button", {
      type: "button", class: "pg-panel",
      onclick: function () { state.head = name; show(); },
    });
    made.input = make("input", {
      type: "checkbox", role: "switch", "aria-label": "Head " + name + " writes",
      onchange: function () {
        if (made.input.checked) state.off.delete(name); else state.off.add(name);
        show();
      },
    });
    made.kind = make("span", { class: "pg-kind" });
    return make("div", {}, [made.button, make("label", {}, [made.input, " " + name]), made.kind]);
  }

  // What kind of head it is on this text, if its score says so with all heads on.
  function kind(name) {
    const score = all.scores[name];
    const what = score.induction >= 0.4 ? "induction" : score.previous >= 0.6 ? "previous" : "";
    return what && what + " " + scoreOf(name, what);
  }

  // A score as it is, and as it was before heads were switched off.
  function scoreOf(name, what) {
    const was = all.scores[name][what].toFixed(2), is = now.scores[name][what].toFixed(2);
    return is + (is === was ? "" : " (was " + was + ")");
  }

  function showHeads() {
    Object.entries(parts.panels).forEach(function (entry) {
      const name = entry[0], made = entry[1];
      made.button.replaceChildren(square(patternOf(name)));
      made.button.setAttribute("aria-pressed", String(name === state.head));
      made.input.checked = !state.off.has(name);
      made.kind.textContent = kind(name);
      made.button.setAttribute("aria-label", ("Head " + name + " " + kind(name)).trim());
    });
    parts.allOn.disabled = !state.off.size;
  }

  function patternOf(name) {
    const place = name.split(".");
    return now.layers[place[0]][place[1]].pattern;
  }

  // The enlarged pattern.

  let cell = null; // [i, j] that is pointed at; the strongest of the chosen row, if none is

  function showLarge() {
    const n = state.tokens.length, A = patternOf(state.head);
    const wide = parts.large.clientWidth || 320;
    // With room for words they stand beside the rows; without, the cell that is read says them.
    const longest = Math.max.apply(null, state.tokens.map(function (t) { return word(t).length; }));
    // A tilted name reaches to the right of its column.
    const narrow = state.tokens.reduce(function (side, number, i) {
      const tail = 5.2 * word(number).length + 8;
      return Math.min(side, (wide - 7 * longest - 8 - tail) / (i + 0.5));
    }, (wide - 7 * longest - 10) / n);
    const named = narrow >= 10;
    const left = named ? 7 * longest + 8 : 2, top = named ? 5.2 * longest + 12 : 2;
    const side = named ? narrow : (wide - left - 2) / n;
    const svg = draw("svg", {
      width: wide, height: top + side * n + 2, viewBox: "0 0 " + wide + " " + (top + side * n + 2),
      "aria-hidden": "true",
    });
    const grid = square(A, {
      x: left, y: top, width: side * n, height: side * n, preserveAspectRatio: "none",
    });
    svg.append(draw("path", {
      class: "pg-frame", d: "M" + left + " " + top + "h" + side * n + "v" + side * n + "z",
    }), grid);
    if (named) {
      const size = Math.min(12, side + 1);
      state.tokens.forEach(function (number, i) {
        const text = { "font-size": size, class: "pg-name" };
        svg.append(draw("text", Object.assign({
          x: left - 5, y: top + side * (i + 0.5) + 0.35 * size, "text-anchor": "end",
        }, text), word(number)));
        const x = left + side * (i + 0.5), y = top - 5;
        svg.append(draw("text", Object.assign({
          x: x, y: y, transform: "rotate(-45 " + x + " " + y + ")",
        }, text), word(number)));
      });
    }
    let stripe = "";
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < i; j++) {
        if (T.follower(state.tokens, i, j)) {
          stripe += "M" + (left + side * j) + " " + (top + side * i) + "h" + side + "v" + side +
            "h" + -side + "z";
        }
      }
    }
    svg.append(draw("path", { class: "pg-stripe", d: stripe }));
    parts.outline = draw("path", { class: "pg-outline" });
    svg.append(parts.outline);
    parts.large.replaceChildren(svg);
    parts.grid = { left: left, top: top, side: side, n: n };
    parts.one.textContent = "Head " + state.head +
      (state.off.has(state.head) ? ", which is off and writes nothing" : "") +
      ": a row reads, a column is read";
    const back = scoreOf(state.head, "previous");
    parts.stripe.textContent = stripe
      ? "The frames mark the induction stripe: what followed an earlier copy of the token that " +
        "reads. On this text the head's induction score is " + scoreOf(state.head, "induction") +
        ", its previous-token score " + back + "."
      : "No token has an earlier copy to follow here, so there is no induction stripe and no " +
        "induction score. The previous-token score is " + back + ".";
    showCell();
  }

  function showCell() {
    const A = patternOf(state.head), i = cell ? cell[0] : state.at;
    const weights = T.row(A, i);
    const j = cell && cell[1] !== null ? cell[1] : strongest(weights);
    const grid = parts.grid, y = grid.top + grid.side * i, x = grid.left + grid.side * j;
    parts.outline.setAttribute("d",
      "M" + grid.left + " " + y + "h" + grid.side * (i + 1) + "v" + grid.side + "h" +
      -grid.side * (i + 1) + "z" +
      "M" + x + " " + y + "h" + grid.side + "v" + grid.side + "h" + -grid.side + "z");
    parts.cell.replaceChildren(token(state.tokens[i]), " (" + i + ") reads ",
      token(state.tokens[j]), " (" + j + "): " + weights[j].toFixed(2));
    Array.from(parts.tokens.children).forEach(function (chip, n) {
      chip.classList.toggle("pg-reads", n === i);
      chip.classList.toggle("pg-read", n === j);
    });
    parts.shown = [i, j];
  }

  // Where a row looks hardest, its look at the start aside if it has another.
  function strongest(weights) {
    const rest = weights.map(function (weight, j) { return j && weight > 0.05 ? weight : 0; });
    return rest.indexOf(Math.max.apply(null, rest));
  }

  function point(i, j) {
    cell = [i, j];
    showCell();
  }

  function pointed(event) {
    const grid = parts.grid, box = parts.large.getBoundingClientRect();
    const j = Math.floor((event.clientX - box.left - grid.left) / grid.side);
    const i = Math.floor((event.clientY - box.top - grid.top) / grid.side);
    if (i < 0 || j >= grid.n || i >= grid.n) return;
    point(i, j < 0 ? null : Math.min(j, i));
  }

  function walkCells(event) {
    const step = {
      ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
    }[event.key];
    if (event.key === "Enter") look(parts.shown[0]);
    if (!step) return;
    event.preventDefault();
    const i = Math.max(0, Math.min(parts.shown[0] + step[0], state.tokens.length - 1));
    point(i, Math.max(0, Math.min(parts.shown[1] + step[1], i)));
  }

  // What comes next, and what carries it.

  function bar(share, from) {
    const made = make("span", { class: "pg-track", "aria-hidden": "true" });
    const fill = make("span", { class: share < 0 ? "pg-fill pg-below" : "pg-fill" });
    fill.style.width = 100 * Math.min(Math.abs(share), 1) + "%";
    made.append(fill);
    if (from !== undefined) {
      const mark = make("span", { class: "pg-mark" });
      mark.style.left = 100 * from + "%";
      made.append(mark);
    }
    return made;
  }

  function largest(values, count) {
    return Array.from(values.keys()).sort(function (a, b) {
      return values[b] - values[a] || a - b;
    }).slice(0, count);
  }

  function showChances() {
    const said = T.chances(now, state.at), before = T.chances(all, state.at);
    const ten = largest(said, 10);
    if (state.logit === null) state.logit = largest(before, 1)[0];
    if (!ten.includes(state.logit)) ten.push(state.logit);
    parts.chances.classList.toggle("pg-changed", state.off.size > 0);
    const held = parts.chances.contains(document.activeElement);
    parts.next.replaceChildren("After ", token(state.tokens[state.at]), " (" + state.at +
      ") comes, says the model:");
    parts.chances.replaceChildren.apply(parts.chances, ten.map(function (number) {
      const change = state.off.size ? ", was " + percent(before[number]) : "";
      return make("button", {
        type: "button", "data-token": String(number),
        "aria-pressed": String(number === state.logit),
        "aria-label": word(number) + ", " + percent(said[number]) + change,
        onclick: function () { state.logit = number; show(); },
      }, [
        token(number), bar(said[number], state.off.size ? before[number] : undefined),
        make("span", { class: "pg-number" }, percent(said[number])),
      ].concat(state.off.size
        ? make("span", { class: "pg-number pg-quiet" }, "was " + percent(before[number])) : []));
    }));
    if (held) parts.chances.querySelector("[aria-pressed=true]").focus();
    const last = state.at === state.tokens.length - 1;
    parts.write.replaceChildren("Write ", token(state.logit),
      last ? " behind the text" : " here, and drop what follows");
    const next = state.tokens[state.at + 1];
    if (next !== undefined) {
      parts.right.replaceChildren("The text goes on with ", token(next), ", which it gives " +
        percent(said[next]) + ".");
    } else {
      parts.right.replaceChildren("The text ends here.");
    }
  }

  function showLoss() {
    const count = all.known.length;
    const nats = function (run) { return T.loss(run, all.known).toFixed(2); };
    const said = !count
      ? "No pair of neighbours comes twice in this text, so there is no loss of a repeat."
      : "Loss of the repeat, on " + count + (count === 1 ? " token" : " tokens") +
        " that have followed the same token before: " + nats(now) + " nats" +
        (state.off.size ? ", with all heads on " + nats(all) : "") + ".";
    if (parts.loss.textContent !== said) parts.loss.textContent = said; // else it is said again
  }

  function showTerms() {
    const found = state.terms === "heads"
      ? T.writers(now, state.at, state.logit)
      : T.paths(now, state.at, state.logit);
    const sizes = found.map(function (term) { return Math.abs(term.value); });
    const most = Math.max.apply(null, sizes) || 1;
    const first = largest(sizes, found.length > 10 ? 8 : 10);
    parts.carries.replaceChildren("What carries the logit of ", token(state.logit));
    parts.terms.replaceChildren.apply(parts.terms, first.map(function (n) {
      const term = found[n];
      return make("p", {}, [
        make("span", { class: "pg-term" }, term.name === "embed" ? "straight" : term.name),
        bar(term.value / most),
        make("span", { class: "pg-number" }, signed(term.value)),
      ]);
    }));
    const total = found.reduce(function (sum, term) { return sum + term.value; }, 0);
    const rest = total - first.reduce(function (sum, n) { return sum + found[n].value; }, 0);
    const others = found.length - first.length;
    parts.sum.textContent = (others > 0 ? "The other " + others + " together: " + signed(rest) +
      ". " : "") + "All " + found.length + " add up to the logit, " + signed(total) + ".";
  }

  // The same in Python, as the page does it.

  // Whether the text says it all; tokens that were picked may be others than the text makes.
  function spelt() {
    const numbers = T.encode(ready[state.model].words, state.text).numbers;
    return numbers.join() === state.tokens.slice(1).join();
  }

  function quoted(text) {
    return JSON.stringify(text);
  }

  function showCode() {
    const letters = !T.packed[state.model].merges;
    const off = Array.from(state.off).sort().map(function (name) {
      const place = name.split(".");
      return quoted(place[0] + ".head " + place[1]);
    });
    const tokens = !letters && spelt()
      ? "[0, *words.encode(" + quoted(state.text) + ")]"
      : "[" + state.tokens.join(", ") + "]";
    const name = state.head.split(".");
    parts.code.textContent = [
      "from tinyattn import " + (off.length ? "ablate, " : "") + "load" +
        (letters ? "" : ", load_vocabulary") + ", logit_attribution",
      "",
      "model = load(" + quoted(state.model) + ")",
      letters ? "" : "words = load_vocabulary()\n",
      "tokens = " + tokens,
      "run = model.run(tokens)",
      off.length ? "run = ablate(run, [" + off.join(", ") + "])" : "",
      "A = run.pattern(" + name[0] + ")[" + name[1] + "]  # row reads column",
      "chances = run.logits[" + state.at + "].softmax(dim=-1)",
      "print(chances.topk(10))",
      "carries = logit_attribution(run, " + state.logit + ", heads=True)",
      "print(carries[\"" + name[0] + ".head " + name[1] + "\"][" + state.at + "])",
    ].filter(function (line, n, lines) { return line || lines[n - 1]; }).join("\n").trim() + "\n";
  }

  function copied(text, button, said) {
    button.dataset.words = button.dataset.words || button.textContent;
    const tell = function (words) {
      button.textContent = words;
      setTimeout(function () { button.textContent = button.dataset.words; }, 1500);
    };
    if (!navigator.clipboard) return tell("Copying is not allowed here");
    navigator.clipboard.writeText(text).then(function () { tell(said); }, function () {
      tell("Copying is not allowed here");
    });
  }

  function copyCode(event) {
    copied(parts.code.textContent, event.currentTarget, "Copied");
  }

  function copyLink(event) {
    copied(location.href.split("#")[0] + "#" + address(), event.currentTarget, "Copied");
  }

  // The address keeps what is shown.

  let fresh = true; // nothing was changed yet, so the address stays as it came

  function address() {
    const kept = new URLSearchParams({ model: state.model, text: state.text });
    if (!spelt()) kept.set("tokens", state.tokens.slice(1).join("."));
    kept.set("at", state.at);
    kept.set("head", state.head);
    kept.set("logit", state.logit);
    if (state.off.size) kept.set("off", Array.from(state.off).sort().join("_"));
    return kept.toString();
  }

  function remember() {
    if (fresh || !root.isConnected) return; // another page's address is not ours
    try {
      history.replaceState(history.state, "", "#" + address());
    } catch (error) { /* some browsers allow only so many changes in half a minute */ }
  }

  // What the address says, as far as it makes sense.
  function recall() {
    const kept = saved(), name = wanted();
    const text = kept.get("text");
    return choose(name, text === null ? undefined : text).then(function () {
      if (!all || state.model !== name || !kept.has("model")) return;
      const model = ready[name].model;
      const listed = (kept.get("tokens") || "").split(".").map(Number);
      if (kept.has("tokens") && listed.length < MODELS[name].most && listed.every(function (t) {
        return Number.isInteger(t) && t > 0 && t < model.W_E.rows;
      })) {
        take(listed);
        parts.text.value = state.text;
      }
      const within = function (value, most, otherwise) {
        const number = Number(value);
        return value !== null && Number.isInteger(number) && number >= 0 && number < most
          ? number : otherwise;
      };
      state.at = within(kept.get("at"), state.tokens.length, state.at);
      state.logit = within(kept.get("logit"), model.W_E.rows, null);
      if (has(all.scores, kept.get("head"))) state.head = kept.get("head");
      (kept.get("off") || "").split("_").forEach(function (head) {
        if (has(all.scores, head)) state.off.add(head);
      });
      show();
    });
  }

  // Starting: at the reader's first move. Until then the drawn picture stands, and nothing is
  // computed; what will be needed is fetched meanwhile, unless data is dear.

  const SIGNS = ["pointermove", "pointerdown", "touchstart", "wheel", "scroll", "keydown"];
  const button = make("button", { type: "button", class: "pg-start", onclick: start },
    "Start the playground");

  function start() {
    SIGNS.forEach(function (sign) { window.removeEventListener(sign, start); });
    if (!root.isConnected || root.dataset.live !== "waiting") return;
    root.dataset.live = "starting";
    button.textContent = "Loading the model …";
    const still = Array.from(root.childNodes);
    load(wanted()).then(function () {
      build();
      return recall();
    }).then(function () {
      root.dataset.live = "yes";
      root.addEventListener("input", function () { fresh = false; }, true);
      root.addEventListener("click", function () { fresh = false; }, true);
      root.addEventListener("keydown", function () { fresh = false; }, true);
      let width = parts.large.clientWidth;
      new ResizeObserver(function () {
        if (all && parts.large.clientWidth !== width) {
          width = parts.large.clientWidth;
          showLarge();
        }
      }).observe(parts.large);
      window.addEventListener("hashchange", moved);
    }, function (error) {
      root.replaceChildren.apply(root, still);
      button.remove();
      root.append(make("p", { class: "pg-status", role: "status" }, error.message));
      root.dataset.live = "no";
    });
  }

  function saved() {
    return new URLSearchParams(location.hash.slice(1));
  }

  function wanted() {
    const name = saved().get("model");
    return has(MODELS, name) ? name : "text-2l";
  }

  // Another address was typed or followed; gone with the page.
  function moved() {
    if (!root.isConnected) return window.removeEventListener("hashchange", moved);
    if (saved().has("model")) recall();
  }

  function fetchAhead() {
    if (location.protocol === "file:" || root.dataset.live !== "waiting") return;
    if (!root.isConnected) return;
    document.head.append(make("link", { rel: "prefetch", href: folder + wanted() + ".js" }));
  }

  root.prepend(button);
  if (saved().has("model")) {
    setTimeout(start, 1);
  } else if (!(navigator.connection && navigator.connection.saveData)) {
    SIGNS.forEach(function (sign) {
      window.addEventListener(sign, start, { passive: true });
    });
    setTimeout(fetchAhead, 3000); // the page itself comes first
  }
})();
