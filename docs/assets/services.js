// What the site does for its reader beside showing pages: search that is loaded when it is
// wanted, marks at pages that were read to the end, and a page copied as a script.
// Loaded before the theme's own script. Nothing leaves the reader's machine.
(function () {
  "use strict";

  // The theme asks for the whole search index on every page. Here it waits for a reader who
  // opens the search, or who comes from it to see the words marked.
  var open = XMLHttpRequest.prototype.open, send = XMLHttpRequest.prototype.send;
  var waiting = [];
  var wanted = /[?&][qh]=/.test(location.search);
  XMLHttpRequest.prototype.open = function (method, url) {
    this.later = /search_index\.json$/.test(url);
    return open.apply(this, arguments);
  };
  XMLHttpRequest.prototype.send = function (body) {
    if (this.later && !wanted) waiting.push(this);
    else send.call(this, body);
  };
  function want() {
    wanted = true;
    waiting.splice(0).forEach(function (request) { send.call(request); });
  }
  document.addEventListener("focusin", function (event) {
    if (event.target.closest(".md-search")) want();
  });
  document.addEventListener("change", function (event) {
    if (event.target.id === "__search") want();
  });

  // Colours: as the system, light or dark. Which they are is settled by the page's own script,
  // before anything is painted.
  var switches = Array.from(document.querySelectorAll("[data-colours]"));
  var edge = document.head.appendChild(document.createElement("meta"));
  edge.name = "theme-color";
  function tint() { edge.content = getComputedStyle(document.body).backgroundColor; }
  window.addEventListener("load", tint);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () {
    colours(switches.findIndex(function (button) { return !button.hidden; }));
    tint();
  });
  switches.forEach(function (button, i) {
    button.addEventListener("click", function () {
      var at = (i + 1) % switches.length;
      colours(at);
      switches[at].focus();
      tint();
      try { __md_set("__palette", {index: at}); } catch (error) { /* chosen for this page only */ }
    });
  });

  // The theme's script begins with a measure of the page, and does much after it. Laid out here,
  // the page can answer between the two.
  void document.body.offsetHeight;

  // For instant navigation the theme writes out the address of every link, sheets of style among
  // them, and a browser loads a sheet anew whose address is written to. It is kept from doing so,
  // but finds the address it would have written when it compares the sheets of two pages.
  document.querySelectorAll("head link[rel=stylesheet]").forEach(function (link) {
    var written = link.cloneNode();
    written.href = link.href;
    Object.defineProperty(link, "href", {value: link.href, writable: true});
    Object.defineProperty(link, "outerHTML", {value: written.outerHTML});
  });

  // Pages read to the end, by their address below the site's. The marks are the reader's own.
  var KEY = "tinyattn.read";
  function read() {
    try {
      var pages = JSON.parse(localStorage.getItem(KEY));
      return Array.isArray(pages) ? pages : [];
    } catch (error) { return []; }
  }
  function keep(pages) {
    try {
      if (pages.length) localStorage.setItem(KEY, JSON.stringify(pages));
      else localStorage.removeItem(KEY);
    } catch (error) { /* a reader who keeps nothing has no marks */ }
    mark();
  }
  function address(url) {
    return new URL(url).pathname.slice(new URL(__md_scope).pathname.length);
  }
  function mark() {
    var pages = read();
    document.querySelectorAll(".md-nav--primary .md-nav__link[href]").forEach(function (link) {
      var marked = !link.hash && pages.indexOf(address(link.href)) >= 0;
      link.classList.toggle("read", marked);
    });
    var forget = document.querySelector(".forget");
    if (forget) forget.hidden = !pages.length;
  }
  // A page is read when its end has been in sight for a second.
  function notice() {
    var end = document.querySelector(".md-footer");
    if (!end || !document.querySelector("article .about")) return;
    var page = address(location.href), timer;
    function done() {
      var pages = read();
      if (pages.indexOf(page) < 0) keep(pages.concat(page));
    }
    var sight = new IntersectionObserver(function (entries) {
      clearTimeout(timer);
      if (entries[entries.length - 1].isIntersecting) timer = setTimeout(done, 1000);
    });
    sight.observe(end);
    return function () {
      sight.disconnect();
      clearTimeout(timer);
    };
  }
  function forgetting() {
    var footer = document.querySelector(".md-footer-meta__inner");
    if (!footer) return;
    var button = document.createElement("button");
    button.type = "button";
    button.className = "forget";
    button.textContent = "Forget which pages I have read";
    button.addEventListener("click", function () { keep([]); });
    footer.append(button);
  }

  // A page as a script in the clipboard: the file beside it, or if that cannot be had (from a
  // folder, or with the network gone) the snippets of the page, with errors caught.
  function snippets() {
    return [].map.call(document.querySelectorAll("article .language-python code"), function (code) {
      var text = code.textContent.trimEnd();
      var below = code.closest(".highlight").nextElementSibling;
      if (!below || !below.matches(".error")) return text;
      text = text.replace(/^(?=.)/gm, "    ");
      return "try:\n" + text + "\nexcept Exception as raised:\n    print(raised)";
    }).join("\n\n") + "\n";
  }
  function copying() {
    var link = document.querySelector(".about .script");
    if (!link || !navigator.clipboard) return;
    var button = document.createElement("button");
    button.type = "button";
    button.textContent = "copy";
    button.setAttribute("aria-label", "Copy page as script");
    button.addEventListener("click", function () {
      fetch(link.href)
        .then(function (answer) { return answer.ok ? answer.text() : snippets(); })
        .catch(snippets)
        .then(function (text) { return navigator.clipboard.writeText(text); })
        .then(function () { alert$.next("Copied to clipboard"); });
    });
    link.after(" (", button, ")");
  }

  document.addEventListener("DOMContentLoaded", function () {
    var leave;
    document$.subscribe(function () {
      if (leave) leave();
      copying();
      forgetting();
      mark();
      leave = notice();
    });
  });
})();
