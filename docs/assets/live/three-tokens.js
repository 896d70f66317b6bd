// The cat sat, live: the reader moves a number of a snippet, and what the snippet prints and draws
// is computed anew. The snippet itself changes with it, so that pasting it gives what is seen.
// The arithmetic is tinyattn's, in transformer.js. The first state is the page's own.
(window.requestIdleCallback || setTimeout)(() => {
  "use strict";
  const { from, lists, plus, project, maskScores, causal, pattern, mix, write, attend } = tinyattn;
  const TITLE = "The cat sat, live";
  const INVITATION = "Move a number: the snippet, what it prints and the picture follow.";
  const TOKENS = ["The", "cat", "sat"];
  const PAINTS = { cell: "#102c62", negative: "#6b1616", ink: "#1f2328", "on-cell": "#ffffff" };
  const EYE = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];

  const title = [...document.querySelectorAll("article .filename")]
    .find((node) => node.textContent === TITLE);
  if (!title || document.querySelector(".knobs")) return;
  const snippet = title.closest(".highlight");
  const blocks = [...document.querySelectorAll("article .highlight")];
  const outputs = blocks.slice(blocks.indexOf(snippet))
    .filter((block) => block.classList.contains("language-output"));
  const figures = [...document.querySelectorAll("article figure.picture")].filter((figure) =>
    snippet.compareDocumentPosition(figure) & Node.DOCUMENT_POSITION_FOLLOWING);

  // The numbers of the snippet that may move: a span of its code for each.
  const code = snippet.querySelector("pre code");
  function numbers(opening, count) {
    const at = code.textContent.indexOf(opening);
    const before = document.createRange();
    before.setStart(code, 0);
    const spans = [...code.querySelectorAll(".mf")].filter((span) => {
      before.setEndBefore(span);
      return before.toString().length > at;
    }).slice(0, count);
    spans.forEach((span) => {
      const sign = span.previousSibling;
      if (sign && sign.textContent.endsWith("-")) {
        sign.textContent = sign.textContent.slice(0, -1);
        span.textContent = `-${span.textContent}`;
      }
    });
    return spans;
  }

  // A matrix as the page prints it, under the snippet that prints it.
  function printed(call) {
    const above = blocks.findIndex((block) => block.textContent.includes(call));
    const lines = blocks[above + 1].querySelector("code").textContent.trimEnd().split("\n").slice(1);
    return from(lines.map((line) => line.trim().split(/\s+/).slice(1).map(Number)));
  }

  const times = (factor, a) => from(lists(a).map((row) => row.map((entry) => factor * entry)));
  const column = (entries) => from(entries.map((entry) => [entry]));

  // From the weights of a head, as on the first page.
  function byWeights() {
    const knobs = [
      ...numbers("W_K=", 3).map((span, i) => ({ span, name: `W_K of ${TOKENS[i]}`, low: 0.1, high: 9 })),
      ...numbers("W_Q=", 3).map((span, i) => ({ span, name: `W_Q of ${TOKENS[i]}`, low: -3, high: 3 })),
    ];
    return {
      knobs,
      off: numbers("W_O=", 1)[0],
      picked: 1,
      pick: (i, j) => j,
      compute(values, on) {
        const x = from(EYE);
        const [keys, queries] = [values.slice(0, 3), values.slice(3)];
        const head = {
          W_Q: column(queries), W_K: column(keys.map(Math.log)), W_V: x, W_O: times(on, x),
        };
        const step = attend(x, head, causal);
        const holds = TOKENS.map((token) => `is ${token}`);
        return {
          said: [
            `${show(step.scores, TOKENS, TOKENS)}\n${show(step.pattern, TOKENS, TOKENS)}`,
            `${show(step.out, TOKENS, holds)}\n${show(plus(x, step.out), TOKENS, holds)}`,
          ],
          drawn: [step.pattern],
        };
      },
    };
  }

  // From scores, as in the worklog: input and weights are drawn, and stand on the page.
  function byScores() {
    const spans = numbers("raw = ", 9);
    const seen = [];
    TOKENS.forEach((reader, i) => TOKENS.slice(0, i + 1).forEach((read, j) => seen.push([i, j])));
    const knobs = seen.map(([i, j]) => ({
      span: spans[3 * i + j], name: `score: ${TOKENS[i]} reads ${TOKENS[j]}`, low: -5, high: 5,
    }));
    const [factor, off] = numbers("factor, on = ", 2);
    knobs.push({ span: factor, name: "factor of the weights", low: 0, high: 1.5 });
    const [x, W_V, W_O] = [
      printed("show(x, rows=tokens, digits=4)"), printed("show(W_V, digits=4)"),
      printed("show(W_O, digits=4)"),
    ];
    return {
      knobs,
      off,
      picked: 4,
      pick: (i, j) => seen.findIndex(([row, column]) => row === i && column === j),
      compute(values, on) {
        const scores = EYE.map((row, i) => row.map((_, j) => {
          const at = seen.findIndex(([row, column]) => row === i && column === j);
          return (at < 0 ? Number(spans[3 * i + j].textContent) : values[at]) / 2;
        }));
        const S = maskScores(from(scores), causal);
        const A = pattern(S);
        const scale = values[values.length - 1];
        const out = times(on, write(mix(A, project(x, times(scale, W_V))), times(scale, W_O)));
        const stream = plus(x, out);
        return {
          said: [[
            "scores", show(S, TOKENS, TOKENS), "pattern", show(A, TOKENS, TOKENS),
            "write", show(out, TOKENS, null, 1), "stream", show(stream, TOKENS, null, 1),
          ].join("\n")],
          drawn: [A, stream],
        };
      },
    };
  }

  // As tinyattn.show prints a matrix. A tie such as 1.125 goes to the even digit: ten or a hundred
  // times a number of single precision is exact, so a tie is seen.
  function number(entry, digits) {
    if (!Number.isFinite(entry)) return "-inf";
    const ten = 10 ** digits;
    const tie = Math.abs((entry * ten) % 1) === 0.5;
    const text = (tie ? (Math.round((entry * ten) / 2) * 2) / ten : entry).toFixed(digits);
    return Number(text) === 0 ? text.replace("-", "") : text;
  }
  function show(matrix, rows, columns, digits = 2) {
    const heads = columns || Array.from({ length: matrix.columns }, (_, j) => `${j}`);
    const stub = Math.max(...rows.map((name) => name.length));
    const lines = ["", ...rows].map((name) => name.padEnd(stub));
    const cells = lists(matrix).map((row) => row.map((entry) => number(entry, digits)));
    heads.forEach((head, j) => {
      const texts = [head, ...cells.map((row) => row[j])];
      const room = Math.max(...texts.map((text) => text.length));
      texts.forEach((text, i) => { lines[i] += `  ${text.padStart(room)}`; });
    });
    return lines.join("\n");
  }

  // The cells of a picture, as tinyattn draws them.
  function draw(figure, matrix) {
    const svg = figure.querySelector("svg");
    const ruled = [...svg.querySelectorAll('path[fill="none"]')].pop();
    const { x, y, width, height } = ruled.getBBox();
    const [wide, tall] = [width / matrix.columns, height / matrix.rows];
    const group = (attributes) => {
      const made = node("g", attributes);
      ruled.before(made);
      return made;
    };
    const node = (tag, attributes) => {
      const made = document.createElementNS(svg.namespaceURI, tag);
      Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
      return made;
    };
    const paint = (name) =>
      ({ fill: PAINTS[name], style: `fill:var(--picture-${name},${PAINTS[name]})` });
    new Set([...svg.querySelectorAll("[data-row]")].map((cell) => cell.parentNode))
      .forEach((old) => old.remove());
    svg.querySelectorAll('g[font-size="12"][text-anchor]').forEach((old) => old.remove());
    const face = {
      "font-family": "ui-monospace,Menlo,Consolas,monospace", "font-size": 12, "text-anchor": "middle",
    };
    const hues = { 1: group(paint("cell")), "-1": group(paint("negative")) };
    const inks = [group({ ...face, ...paint("ink") }), group({ ...face, ...paint("on-cell") })];

    const isPattern = figure.dataset.kind === "pattern";
    const digits = isPattern ? 2 : 1;
    const entries = lists(matrix);
    const most = isPattern ? 1 : Math.max(...entries.flat().map(Math.abs)) || 1;
    entries.forEach((row, i) => row.forEach((entry, j) => {
      const size = Math.round(Math.abs(entry / most) * 100) / 100;
      const dark = size >= 0.5;
      if (entry) {
        hues[Math.sign(entry)].append(node("rect", {
          x: x + j * wide, y: y + i * tall, width: wide, height: tall,
          "fill-opacity": dark ? 0.32 + 0.68 * size : Math.max(size, 0.03),
          "data-row": i, "data-column": j,
        }));
      }
      if (entry || !isPattern) {
        const words = node("text", { x: x + (j + 0.5) * wide, y: y + (i + 0.5) * tall + 4.2 });
        words.textContent = number(entry, digits);
        inks[Number(dark)].append(words);
      }
    }));
    const darkest = [...svg.querySelectorAll("text")]
      .find((words) => words.textContent.startsWith("Darkest"));
    if (darkest) darkest.textContent = `Darkest: ${number(most, digits)} from zero.`;
    figure.querySelectorAll("tbody tr").forEach((line, i) =>
      line.querySelectorAll("td").forEach((cell, j) => {
        const entry = entries[i][j];
        cell.textContent = isPattern && !entry ? "0" : number(entry, digits);
      }));
  }

  // A number as Python writes a float.
  const spelled = (value) => {
    const text = String(Number(value.toFixed(4)));
    return text.includes(".") ? text : `${text}.0`;
  };

  const setup = code.textContent.includes("raw = ") ? byScores() : byWeights();
  const { knobs, off } = setup;
  const first = [...knobs.map((knob) => knob.span), off].map((span) => span.textContent);
  const written = setup.compute(...state()).said;
  const shown = (block) => block.querySelector("code").textContent.trimEnd();
  if (written.some((text, n) => text !== shown(outputs[n]))) {
    console.error("The cat sat, live: the script computes other numbers than the page shows.");
    return;
  }

  function state() {
    return [knobs.map((knob) => Number(knob.span.textContent)), Number(off.textContent)];
  }

  function make(tag, attributes, ...children) {
    const node = document.createElement(tag);
    Object.entries(attributes).forEach(([name, value]) => node.setAttribute(name, value));
    node.append(...children);
    return node;
  }

  const choice = make("select", { "aria-label": "Which number to move" });
  knobs.forEach((knob, n) => choice.append(make("option", { value: n }, knob.name)));
  const slider = make("input", { type: "range", step: "any", "aria-label": "Its value" });
  const box = make("input", { type: "number", step: "any", "aria-label": "Its value as a number" });
  const on = make("input", { type: "checkbox" });
  const reset = make("button", { type: "button" }, "Reset");
  const said = make("p", { class: "readout", role: "status" });
  const panel = make("div", { class: "knobs", role: "group", "aria-label": TITLE },
    make("div", {}, choice, slider, box, make("label", {}, on, " head on"), reset), said);
  document.querySelector(".room").append(panel);

  const described = figures.map((figure) => figure.querySelector("desc"))
    .map((desc) => [desc, desc.textContent]);
  const knob = () => knobs[Number(choice.value)];

  function update() {
    const { said: texts, drawn } = setup.compute(...state());
    texts.forEach((text, n) => { outputs[n].querySelector("code").textContent = `${text}\n`; });
    drawn.forEach((matrix, n) => draw(figures[n], matrix));
    const moved = [...knobs.map((one) => one.span), off].some((span, n) => span.textContent !== first[n]);
    described.forEach(([desc, words]) => {
      desc.textContent = moved ? "The numbers follow the snippet; the table holds them." : words;
    });
    said.textContent = moved
      ? "Moved. The snippet above has the same numbers; the sentences around it keep the first ones."
      : INVITATION;
    reset.disabled = !moved;
    follow();
  }

  // The controls say what the snippet says.
  function follow() {
    const { span, low, high } = knob();
    const value = Number(span.textContent);
    [slider, box].forEach((input) => {
      input.min = low;
      input.max = high;
    });
    slider.value = value;
    if (document.activeElement !== box) box.value = value;
    on.checked = Number(off.textContent) !== 0;
    knobs.forEach((one) => one.span.classList.toggle("lit", one === knob()));
  }

  function move(text) {
    const value = Number(text);
    const { span, name, low, high } = knob();
    if (!text.trim() || !(value >= low && value <= high)) {
      said.textContent = `${name}: write a number from ${low} to ${high}.`;
      return;
    }
    span.textContent = spelled(value);
    update();
  }

  slider.addEventListener("input", () => move(Number(slider.value).toFixed(2)));
  box.addEventListener("input", () => move(box.value));
  box.addEventListener("blur", follow);
  choice.addEventListener("change", follow);
  on.addEventListener("change", () => {
    off.textContent = on.checked ? "1.0" : "0.0";
    update();
  });
  reset.addEventListener("click", () => {
    [...knobs.map((one) => one.span), off].forEach((span, n) => { span.textContent = first[n]; });
    update();
    slider.focus();
  });
  figures[0].addEventListener("cell", (event) => {
    const [i, j] = event.detail;
    const found = setup.pick(i, j);
    if (found < 0 || i < 0 || j < 0) return;
    choice.value = found;
    follow();
  });
  choice.value = setup.picked;
  said.textContent = INVITATION;
  reset.disabled = true;
  follow();
});
