// Parallel or sequential, stepped: the two pictures of what waits for what, side by side, up to a
// step. Which values a step computes is read from the pictures' tables and from the page's output;
// the script only shows and hides.
(() => {
  "use strict";
  const find = (file) => document.querySelector(`article figure[data-file="${file}"]`);
  const [reading, writing] = [find("parallel-reading"), find("parallel-writing")];
  const title = [...document.querySelectorAll("article .filename")]
    .find((node) => node.textContent === "Step by step");
  if (!reading || !writing || !title || document.querySelector(".stepper")) return;

  // Each line of the output: the step, and what reading, the cache, and no cache compute at it.
  const printed = title.closest(".highlight").nextElementSibling.querySelector("code").textContent;
  const steps = printed.trimEnd().split("\n").slice(1)
    .map((line) => line.trim().split(/\s{2,}/).slice(1));
  const tokens = (words) => (words || "").replace(/^.*: /, "").split(" ");
  const last = steps.length - 1;

  // The nodes of a picture: which token, at which step first, and what is drawn.
  function nodes(figure) {
    const columns = [...figure.querySelectorAll("thead th")].map((head) => head.textContent);
    const lines = [...figure.querySelectorAll("tbody tr")];
    const texts = [...figure.querySelectorAll("svg text")];
    return [...figure.querySelectorAll("circle")].map((circle) => {
      const { row, column } = circle.dataset;
      const first = Number(lines[row].querySelectorAll("td")[column].textContent);
      const number = texts.find((text) => text.getAttribute("x") === circle.getAttribute("cx") &&
        text.textContent === String(first) &&
        Math.abs(text.getAttribute("y") - circle.getAttribute("cy")) < 8);
      return { row, first, token: columns[column], drawn: [circle, number] };
    });
  }

  function make(tag, attributes, ...children) {
    const node = document.createElement(tag);
    Object.entries(attributes).forEach(([name, value]) => node.setAttribute(name, value));
    node.append(...children);
    return node;
  }

  const slider = make("input", { type: "range", min: 0, max: last, "aria-label": "Step" });
  slider.value = last;
  const button = (words, press) => {
    const made = make("button", { type: "button" }, words);
    made.addEventListener("click", press);
    return made;
  };
  const back = button("Previous", () => go(Number(slider.value) - 1));
  const on = button("Next", () => go(Number(slider.value) + 1));
  const play = button("Play", () => (timer ? stop() : start()));
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const rest = () => {
    play.hidden = still.matches;
    if (still.matches) stop();
  };
  const cache = make("input", { type: "checkbox" });
  cache.checked = true;
  const said = make("p", { class: "readout", role: "status" });
  const panel = make("div", { class: "stepper", role: "group", "aria-label": "Step by step" },
    make("div", {}, back, slider, on, play, make("label", {}, cache, " with a cache")), said);
  const whole = make("div", { class: "stepped" });
  reading.before(whole);
  whole.append(panel, make("div", { class: "side" }, reading, writing));

  let timer = 0;
  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  }
  function start() {
    if (Number(slider.value) === last) show(0);
    play.textContent = "Pause";
    timer = setInterval(() => {
      if (!panel.isConnected) return stop();
      show(Number(slider.value) + 1);
      if (Number(slider.value) === last) stop();
    }, 900);
  }

  const pictures = [nodes(reading), nodes(writing)];
  function show(step) {
    slider.value = step;
    const [read, cached, anew] = steps[step];
    const words = [read, cache.checked ? cached : anew];
    pictures.forEach((picture, n) => {
      const rows = picture.filter((node) => node.first === step).map((node) => node.row);
      const named = tokens(words[n]);
      picture.forEach((node) => {
        const now = rows.includes(node.row) && named.includes(node.token) && node.first <= step;
        node.drawn.forEach((drawn) => {
          drawn.classList.toggle("now", now);
          drawn.classList.toggle("later", node.first > step);
        });
      });
    });
    const text = `Reading: ${words[0] === "-" ? "done" : words[0]}. Writing: ${words[1]}.`;
    said.textContent = `Step ${step} of ${last}. ${text}`;
    slider.setAttribute("aria-valuetext", `${step}. ${text}`);
    back.disabled = step === 0;
    on.disabled = step === last;
  }
  function go(step) {
    stop();
    show(step);
  }
  slider.addEventListener("input", () => go(Number(slider.value)));
  cache.addEventListener("change", () => show(Number(slider.value)));
  still.addEventListener("change", rest);
  rest();
  show(last);
})();
