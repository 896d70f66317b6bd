// What the page does once it is shown: snippets get their copy buttons, and whatever is wider
// than its frame can be reached and scrolled with the keyboard.
// The theme announces each page it shows, the first one included.
(function () {
  "use strict";
  var idle = window.requestIdleCallback || function (run) { setTimeout(run, 200); };
  function name(frame) {
    if (frame.querySelector("table")) return "Table";
    if (frame.matches(".tabbed-labels")) return "Tabs";
    if (frame.matches(".formula")) return "Formula";
    if (frame.closest(".language-output")) return "Output";
    return frame.closest("figure") ? "Picture" : "Code";
  }
  var FRAMES = ".scroll, .highlight code, .tabbed-labels";
  function reach(frame) {
    if (frame.hasAttribute("role")) return;
    frame.tabIndex = 0;
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", name(frame) + ", scrolls sideways");
  }
  // All are measured before any is changed, so that the page is laid out once.
  function measure(frames) {
    frames.filter(function (frame) {
      return frame.scrollWidth > frame.clientWidth;
    }).forEach(reach);
  }
  // Called when the page has been laid out anyway: to measure costs nothing then.
  var sizes = new ResizeObserver(function (seen) {
    measure(seen.map(function (entry) { return entry.target; }));
  });
  // Code is laid out when it comes near. Until then its longest line tells: a letter is half as
  // wide as it is high, or up to two thirds; what lies between is measured when there is time.
  function judge() {
    var article = document.querySelector("article");
    var em = 0.76 * parseFloat(getComputedStyle(article).fontSize);
    var codes = Array.from(article.querySelectorAll(".highlight[style] code"));
    var letters = codes.map(function (code) {
      var lines = code.textContent.split("\n").map(function (line) { return line.length; });
      return (code.closest(".highlight").clientWidth / em - 2.1) / Math.max.apply(null, lines);
    });
    function between(low, high) {
      return codes.filter(function (code, i) { return letters[i] >= low && letters[i] < high; });
    }
    between(-Infinity, 0.5).forEach(reach);
    var unsure = between(0.5, 0.67);
    idle(function one() {
      if (!unsure.length) return;
      measure([unsure.shift()]);
      idle(one);
    });
  }
  function frames() {
    sizes.disconnect();
    document.querySelectorAll(FRAMES).forEach(function (frame) { sizes.observe(frame); });
    idle(judge, {timeout: 500});
  }

  // The theme would add its buttons one by one, and have the page laid out after each. Its
  // script for the clipboard serves ours as well.
  var nav = document.createElement("nav");
  nav.className = "md-code__nav";
  nav.innerHTML = '<button class="md-code__button" title="Copy to clipboard" data-md-type="copy"></button>';
  // It copies what is shown, and of what is not laid out nothing is.
  document.addEventListener("click", function (event) {
    if (!event.target.matches(".md-code__button")) return;
    event.target.closest(".highlight").style.contentVisibility = "visible";
  }, true);
  var last = 0;
  function buttons() {
    var blocks = document.querySelectorAll("article .highlight:not(.language-output):not(.doc-signature) pre > code");
    blocks.forEach(function (code, i) {
      if (code.previousElementSibling && code.previousElementSibling.matches("nav")) return;
      var made = nav.cloneNode(true);
      code.id = "snippet-" + (last += 1);
      made.setAttribute("aria-label", "Snippet " + (i + 1));
      made.firstElementChild.setAttribute("data-clipboard-target", "#" + code.id);
      code.before(made);
    });
  }
  function shown() {
    frames();
    idle(buttons, {timeout: 500});
  }
  // From a file the theme announces no page, and what is shown first is all there is.
  if (location.protocol === "file:") shown();
  document$.subscribe(shown);
})();
