
(function () {
  "use strict";
  var LETTER = 7.22, MARGIN = 12, WIDTH = 1176, EDGE = 0.01;
  var byId = function (id) { return document.getElementById(id); };
  var about = byId("about"), reset = byId("reset"), search = byId("search"), matched = byId("matched");
  var boxes = [].map.call(byId("boxes").children, function (g) {
    var rect = g.querySelector("rect"), title = g.querySelector("title").textContent;
    return {
      g: g, rect: rect, text: g.querySelector("text"), name: title.split("\n")[0],
      tooltip: title.replace("\n", "  ·  "),
      x: +rect.getAttribute("x"), y: +rect.getAttribute("y"), w: +rect.getAttribute("width") + 0.5
    };
  });
  var zoomed = null;

  function label(name, width) {
    var letters = Math.floor((width - 6) / LETTER), all = Array.from(name);
    if (all.length <= letters) { return name; }
    return letters < 3 ? "" : all.slice(0, letters - 1).join("") + "…";
  }

  function place(box, x, width) {
    box.rect.setAttribute("x", x);
    box.rect.setAttribute("width", Math.max(width - 0.5, 0.15));
    box.text.setAttribute("x", x + 3);
    box.text.textContent = label(box.name, width);
  }

  function zoom(on) {
    zoomed = on;
    boxes.forEach(function (box) {
      var classes = box.g.classList;
      classes.remove("gone");
      classes.remove("outer");
      if (!on) { place(box, box.x, box.w); return; }
      if (box.y > on.y && box.x <= on.x + EDGE && box.x + box.w >= on.x + on.w - EDGE) {
        classes.add("outer");
        place(box, MARGIN, WIDTH);
      } else if (box.y <= on.y && box.x >= on.x - EDGE && box.x + box.w <= on.x + on.w + EDGE) {
        place(box, MARGIN + (box.x - on.x) / on.w * WIDTH, box.w / on.w * WIDTH);
      } else {
        classes.add("gone");
      }
    });
    reset.textContent = on ? "Zoom out (Esc)" : "";
  }

  function find(pattern) {
    var wanted = null, spans = [];
    if (pattern) {
      try { wanted = new RegExp(pattern, "i"); } catch (error) { about.textContent = String(error.message); return; }
    }
    boxes.forEach(function (box) {
      var hit = wanted && wanted.test(box.name);
      box.g.classList[hit ? "add" : "remove"]("hit");
      box.g.classList[wanted && !hit ? "add" : "remove"]("miss");
      if (hit) { spans.push([box.x, box.x + box.w]); }
    });
    spans.sort(function (a, b) { return a[0] - b[0]; });
    var covered = 0, end = -1;
    spans.forEach(function (span) {
      var from = Math.max(span[0], end);
      if (span[1] > from) { covered += span[1] - from; end = span[1]; }
    });
    matched.textContent = wanted ? pattern + ": " + (covered / WIDTH * 100).toFixed(1) + " %" : "";
    search.textContent = wanted ? "Clear the search" : "Search (Ctrl-F)";
  }

  function ask() {
    if (matched.textContent) { find(""); return; }
    var pattern = prompt("Functions to find (a regular expression):", "");
    if (pattern) { find(pattern); }
  }

  byId("boxes").addEventListener("click", function (event) {
    var g = event.target.closest("g");
    boxes.forEach(function (box) { if (box.g === g) { zoom(box === zoomed ? null : box); } });
  });
  byId("boxes").addEventListener("mouseover", function (event) {
    var g = event.target.closest("g");
    boxes.forEach(function (box) { if (box.g === g) { about.textContent = box.tooltip; } });
  });
  byId("boxes").addEventListener("mouseout", function () { about.textContent = ""; });
  reset.addEventListener("click", function () { zoom(null); });
  search.addEventListener("click", ask);
  window.addEventListener("keydown", function (event) {
    if (event.key === "Escape") { zoom(null); find(""); }
    if (event.key === "F3" || (event.ctrlKey && event.key === "f")) { event.preventDefault(); ask(); }
  });
  find("");
  var hash = decodeURIComponent(location.hash.slice(1)).split("=");
  if (hash[0] === "search" && hash[1]) { find(hash[1]); }
  if (hash[0] === "zoom" && hash[1]) { zoom(boxes.filter(function (box) { return box.name === hash[1]; })[0] || null); }
}());
