// From a folder, browsers start no workers. The search then runs in a hidden frame that speaks
// as a worker does. Loaded by the offline build alone, before the theme's script.
(function () {
  "use strict";
  if (location.protocol !== "file:") return;
  window.Worker = function (address) {
    var worker = new EventTarget();
    var frame = document.createElement("iframe");
    var inside, waiting = [];
    function tell(data) {
      inside.dispatchEvent(new MessageEvent("message", { data: data }));
    }
    worker.postMessage = function (data) {
      if (inside) tell(data);
      else waiting.push(data);
    };
    worker.terminate = function () { frame.remove(); };
    frame.hidden = true;
    frame.addEventListener("load", function () {
      var window = frame.contentWindow;
      window.postMessage = function (data) {
        worker.dispatchEvent(new MessageEvent("message", { data: data }));
      };
      var script = window.document.createElement("script");
      script.src = new URL(address, document.baseURI).href;
      script.onload = function () {
        inside = window;
        waiting.splice(0).forEach(tell);
      };
      window.document.body.append(script);
    }, { once: true });
    frame.srcdoc = "<!doctype html><title>Search</title><body></body>";
    document.body.append(frame);
    return worker;
  };
})();
