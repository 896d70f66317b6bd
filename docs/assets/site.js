// Whatever is wider than its frame can be reached and scrolled with the keyboard.
// The theme announces each page it shows, the first one included.
(function () {
  "use strict";
  function name(frame) {
    if (frame.querySelector("table")) return "Table";
    if (frame.matches(".tabbed-labels")) return "Tabs";
    if (frame.matches(".formula")) return "Formula";
    if (frame.closest(".language-output")) return "Output";
    return frame.closest("figure") ? "Picture" : "Code";
  }
  function frames() {
    // All are measured before any is changed, so that the page is laid out once.
    var all = document.querySelectorAll(".scroll, .highlight code, .tabbed-labels");
    [].filter.call(all, function (frame) {
      return frame.scrollWidth > frame.clientWidth;
    }).forEach(function (frame) {
      frame.tabIndex = 0;
      frame.setAttribute("role", "group");
      frame.setAttribute("aria-label", name(frame) + ", scrolls sideways");
    });
    document.querySelectorAll("nav.md-code__nav").forEach(function (nav, i) {
      nav.setAttribute("aria-label", "Snippet " + (i + 1));
    });
  }
  document$.subscribe(function () {
    frames();
    setTimeout(frames, 300);
  });
  window.addEventListener("resize", frames);
})();
