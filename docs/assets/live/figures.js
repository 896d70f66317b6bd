// Pictures come alive: a cell says what it is, and its tokens light up wherever they stand.
// Without this script a picture says the same, by its drawing and by the table under it.
(() => {
  "use strict";
  const HINT = "Point at a cell or a label to read it.";
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

  function make(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  // What the table under a picture holds now: a live picture changes it.
  function read(figure) {
    const all = (query, within) => [...within.querySelectorAll(query)];
    const words = (node) => node.textContent;
    const table = figure.querySelector("details table");
    if (!table) return null;
    const lines = all("tbody tr", table);
    return {
      rows: lines.map((line) => words(line.querySelector("th"))),
      columns: all("thead th", table).map(words),
      values: lines.map((line) => all("td", line).map(words)),
      reads: words(table.querySelector("caption")),
    };
  }

  const quoted = (text) => (/[",\r\n]|^\s|\s$/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);

  function csv({ rows, columns, values }) {
    const lines = [["", ...columns], ...rows.map((name, i) => [name, ...values[i]])];
    return lines.map((line) => line.map(quoted).join(",") + "\n").join("");
  }

  async function copy(text) {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    const held = document.activeElement;
    const area = make("textarea", {}, text);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    held.focus({ preventScroll: true });
  }

  // The picture as a file: outside of the page its colours are the light ones.
  function download(figure) {
    const svg = figure.querySelector("svg").cloneNode(true);
    svg.querySelectorAll(".mark").forEach((node) => node.remove());
    svg.querySelectorAll("text, rect, circle").forEach((node) => node.removeAttribute("class"));
    ["class", "tabindex", "aria-roledescription"].forEach((name) => svg.removeAttribute(name));
    svg.setAttribute("role", "img");
    const title = document.createElementNS(svg.namespaceURI, "title");
    title.textContent = svg.getAttribute("aria-label");
    svg.prepend(title);
    const text = new XMLSerializer().serializeToString(svg);
    const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    make("a", { href: url, download: `${figure.dataset.file}.svg` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  // Numbers of one picture with the same decimals, as they are drawn; an exact 0 stays 0.
  function aligned(data) {
    const decimals = (text) => (/^-?\d+\.\d+$/.test(text) ? text.split(".")[1].length : 0);
    const most = Math.max(...data.values.flat().map(decimals));
    const spell = (text) => (decimals(text) ? Number(text).toFixed(most) : text);
    return { ...data, values: data.values.map((line) => line.map(spell)) };
  }

  // The sentence of a cell, of a row (j = -1) or of a column (i = -1). Tokens are elements.
  function sentence(kind, data, i, j) {
    const { rows, columns, values } = data;
    const name = (labels, k) => {
      const again = labels.indexOf(labels[k]) !== labels.lastIndexOf(labels[k]);
      return make("bdi", {}, again ? `${labels[k]} (${k})` : labels[k]);
    };
    const row = i < 0 ? null : name(rows, i);
    const column = j < 0 ? null : name(columns, j);
    const axes = /^(.+) ↓ (.+) →$/.exec(data.reads) || ["", "row", "column"];
    const reads = kind === "pattern" || axes[1] === "reads";
    if (row && column) {
      const value = values[i][j];
      if (reads) return [row, " reads ", column, `: ${value}`];
      if (kind === "paths") return [row, `: ${value}`];
      if (kind === "dependencies") return [row, " of ", column, `: step ${value}`];
      if (kind === "stream") {
        const last = i === rows.length - 1;
        return last ? ["sum at ", column, `: ${value}`] : [row, " writes to ", column, `: ${value}`];
      }
      return [`${axes[1]} `, row, `, ${axes[2]} `, column, `: ${value}`];
    }
    const [others, entries] = row ? [columns, values[i]] : [rows, values.map((line) => line[j])];
    const found = entries.map((value, k) => [value, k]).filter(([value]) => Number(value) !== 0);
    const most = found.sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, 5);
    const verb = reads ? (row ? " reads " : " is read by ") : ": ";
    const said = [row || column, verb];
    most.forEach(([value, k], n) => said.push(n ? ", " : "", name(others, k), ` ${value}`));
    if (!most.length) said.push("nothing");
    if (found.length > most.length) said.push(`, and ${found.length - most.length} more`);
    return said;
  }

  // Where each token of the page stands: in pictures, and alone in italics or as code.
  let places = null;
  function index() {
    places = new Map();
    const put = (name, node) => places.set(name, [...(places.get(name) || []), node]);
    document.querySelectorAll("figure.picture svg").forEach((svg) => {
      const { columnLabels } = labels(svg);
      svg.querySelectorAll('[style*="isolate"] text').forEach((text) => put(whole(text), text));
      svg.querySelectorAll('rect[fill-opacity="0.08"]').forEach((band, j) => {
        if (columnLabels[j]) put(whole(columnLabels[j]), band);
      });
    });
    document.querySelectorAll("article em, article :not(pre) > code").forEach((node) => {
      if (places.has(node.textContent)) put(node.textContent, node);
    });
  }

  // A long label is cut short, and its title holds the whole.
  const whole = (text) => (text.querySelector("title") || text).textContent;

  function labels(svg) {
    const texts = [...svg.querySelectorAll('[style*="isolate"] text')];
    const isRow = (text) => text.closest("[text-anchor]").getAttribute("text-anchor") === "end";
    return {
      rowLabels: texts.filter(isRow),
      columnLabels: texts.filter((text) => !isRow(text)),
    };
  }

  function light(names) {
    document.querySelectorAll(".lit").forEach((node) => node.classList.remove("lit"));
    if (!places) index();
    names.filter((name) => !/^[\d.]*$/.test(name)).forEach((name) =>
      (places.get(name) || []).forEach((node) => node.classList.add("lit")));
  }

  function wake(figure) {
    const { kind } = figure.dataset;
    const svg = figure.querySelector("svg");
    const details = figure.querySelector("details");
    const data = read(figure);
    const grid = kind === "pattern" || kind === "matrix";
    // The heads of a layer stand side by side, at one height.
    const layers = new Map();
    svg.querySelectorAll("g.head").forEach((head) => {
      const height = head.getAttribute("transform").match(/ ([\d.]+)\)/)[1];
      layers.set(height, [...(layers.get(height) || []), head]);
    });
    const heads = [...layers.values()];
    const readable = data && ["pattern", "matrix", "stream", "dependencies", "paths"].includes(kind);
    const readout = make("p", { class: "readout", role: "status" }, HINT);
    const tell = (...words) => readout.replaceChildren(...words);

    const tools = make("div", { class: "tools", role: "group", "aria-label": "This picture" });
    const button = (words, press) => {
      const made = make("button", { type: "button" }, words);
      made.addEventListener("click", press);
      tools.append(made);
      return made;
    };
    if (data) {
      const open = button("Table", () => { details.open = !details.open; });
      const sync = () => open.setAttribute("aria-expanded", details.open);
      details.addEventListener("toggle", sync);
      sync();
      button("Copy as CSV", () => {
        const text = csv(read(figure));
        copy(text).then(
          () => tell(`Copied: ${read(figure).rows.length} rows.`),
          () => tell("The browser does not allow copying here. Open the table instead."));
      });
    }
    button("Download SVG", () => download(figure));
    svg.after(readout, tools);
    figure.classList.add("live");
    if (!readable && !heads.length) {
      tell();
      return;
    }

    const { rowLabels, columnLabels } = labels(svg);
    const mark = document.createElementNS(svg.namespaceURI, "g");
    mark.setAttribute("class", "mark");
    svg.append(mark);
    let current = [0, 0]; // where the arrow keys are
    let shown = null;

    function frame(x, y, width, height, thin) {
      const rect = document.createElementNS(svg.namespaceURI, "rect");
      Object.entries({ x, y, width, height }).forEach(([name, value]) =>
        rect.setAttribute(name, value));
      if (thin) rect.setAttribute("class", "thin");
      mark.append(rect);
    }

    // The place of the cells: the lines that rule the grid are drawn last.
    function cells() {
      const { x, y, width, height } = [...svg.querySelectorAll('path[fill="none"]')].pop().getBBox();
      return { x, y, wide: width / data.columns.length, tall: height / data.rows.length };
    }

    function outline(i, j) {
      mark.replaceChildren();
      if (heads.length) {
        const head = heads[i][j].cloneNode(true);
        head.replaceChildren(head.querySelector("rect"));
        mark.append(head);
      } else if (grid) {
        const { x, y, wide, tall } = cells();
        const [n, m] = [data.columns.length, data.rows.length];
        if (i >= 0) frame(x, y + i * tall, n * wide, tall, j >= 0);
        if (i < 0) frame(x + j * wide, y, wide, m * tall);
        if (i >= 0 && j >= 0) frame(x + j * wide, y + i * tall, wide, tall);
      } else {
        svg.querySelectorAll("[data-row]").forEach((node) => {
          const [row, column] = [Number(node.dataset.row), Number(node.dataset.column)];
          if ((i >= 0 && row !== i) || (j >= 0 && column !== j && kind !== "paths")) return;
          const { x, y, width, height } = node.getBBox();
          frame(x - 2, y - 2, width + 4, height + 4, i < 0 || j < 0);
        });
      }
    }

    function select(i, j) {
      if (shown && shown[0] === i && shown[1] === j) return;
      shown = [i, j];
      outline(i, j);
      if (heads.length) {
        tell(heads[i][j].querySelector("title").textContent);
        return;
      }
      const now = aligned(read(figure));
      tell(...sentence(kind, now, i, j));
      light([...(grid && i >= 0 ? [now.rows[i]] : []), ...(j >= 0 ? [now.columns[j]] : [])]);
    }

    function clear() {
      shown = null;
      mark.replaceChildren();
      light([]);
      tell(HINT);
    }

    function hit(event) {
      if (heads.length) {
        for (const [i, layer] of heads.entries()) {
          const j = layer.findIndex((head) => head.contains(event.target));
          if (j >= 0) return [i, j];
        }
        return null;
      }
      const text = event.target.closest("text");
      const [i, j] = [rowLabels.indexOf(text), columnLabels.indexOf(text)];
      if (i >= 0 && i < data.rows.length) return [i, kind === "paths" ? 0 : -1];
      if (j >= 0 && j < data.columns.length) return [-1, j];
      const cell = document.elementsFromPoint(event.clientX, event.clientY)
        .find((node) => node.dataset && node.dataset.row && svg.contains(node));
      if (cell) return [Number(cell.dataset.row), kind === "paths" ? 0 : Number(cell.dataset.column)];
      if (!grid) return null;
      const box = svg.getBoundingClientRect();
      const unit = svg.viewBox.baseVal.width / box.width;
      const { x, y, wide, tall } = cells();
      const column = Math.floor(((event.clientX - box.left) * unit - x) / wide);
      const row = Math.floor(((event.clientY - box.top) * unit - y) / tall);
      const inside = row >= 0 && row < data.rows.length && column < data.columns.length;
      return inside && column >= 0 ? [row, column] : null;
    }

    const rest = () => (svg.matches(":focus") ? select(...current) : clear());
    svg.addEventListener("pointermove", (event) => {
      if (event.pointerType === "touch") return;
      const found = hit(event);
      if (found) select(...found);
      else rest();
    });
    svg.addEventListener("pointerleave", rest);
    svg.addEventListener("click", (event) => {
      const found = hit(event);
      if (!found) return;
      current = found;
      select(...found);
      figure.dispatchEvent(new CustomEvent("cell", { detail: found, bubbles: true }));
    });
    svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) select(...current); });
    svg.addEventListener("blur", clear);
    svg.addEventListener("keydown", (event) => {
      const step = {
        ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
        Home: [0, -Infinity], End: [0, Infinity],
      }[event.key];
      if (event.key === "Escape") svg.blur();
      if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const [rows, columns] = heads.length
        ? [heads.length, heads[clamp(current[0], 0, heads.length - 1)].length]
        : [data.rows.length, data.columns.length];
      // One step before the first cell is the label of its row, or of its column.
      const edge = heads.length || kind === "paths" ? 0 : -1;
      const i = clamp(current[0] + step[0], current[1] < 0 ? 0 : edge, rows - 1);
      const first = i < 0 || event.key === "Home" ? 0 : edge;
      current = [i, clamp(current[1] + step[1], first, columns - 1)];
      select(...current);
    });
    svg.setAttribute("tabindex", "0");
    svg.setAttribute("role", "application");
    svg.setAttribute("aria-roledescription", "picture, the arrow keys read its cells");
  }

  // One at a time, whenever the browser has nothing else to do.
  const idle = window.requestIdleCallback || ((run) => setTimeout(run, 50));
  let waiting = false;
  function next() {
    const figure = document.querySelector("figure.picture:not(.live)");
    waiting = Boolean(figure);
    if (!figure) return;
    wake(figure);
    idle(next, { timeout: 500 });
  }
  function start() {
    places = null;
    if (!waiting) idle(next, { timeout: 500 });
    waiting = true;
  }

  // A word of the text lights up in the pictures, too.
  const word = (event) => {
    const node = event.target.closest && event.target.closest("em, code");
    if (node && !places) index();
    return node && places.get(node.textContent)?.includes(node) ? node.textContent : "";
  };
  document.addEventListener("pointerover", (event) => { if (word(event)) light([word(event)]); });
  document.addEventListener("pointerout", (event) => { if (word(event)) light([]); });

  // From a file the theme announces no page, and what is shown first is all there is.
  start();
  document$.subscribe(start);
})();
