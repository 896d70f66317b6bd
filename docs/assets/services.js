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
})();
