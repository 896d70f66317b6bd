// Run in a page: what a reader's eyes would find. Returns plain data, the tests judge it.
(() => {
  const channel = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const contrast = (a, b) => {
    const [high, low] = [light(a), light(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const rgba = (text) => {
    const n = (text.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
    return [n[0], n[1], n[2], n.length > 3 ? n[3] : 1];
  };
  const over = (top, alpha, ground) => ground.map((g, i) => g * (1 - alpha) + top[i] * alpha);

  // The worst contrast between a picture's words and what is drawn beneath them.
  const pictures = [...document.querySelectorAll("figure.picture svg")].map((svg) => {
    const paper = rgba(getComputedStyle(document.body).backgroundColor).slice(0, 3);
    // Boxes and fills are read once: a picture may have hundreds of cells under as many words.
    const shapes = [...svg.querySelectorAll("rect, circle, text")].map((node) => {
      const style = getComputedStyle(node);
      return { node, box: node.getBoundingClientRect(), fill: style.fill, opacity: style.fillOpacity };
    });
    let worst = 21;
    shapes.forEach((text, at) => {
      if (text.node.tagName !== "text" || !text.node.textContent.trim()) return;
      const [x, y] = [text.box.x + text.box.width / 2, text.box.y + text.box.height / 2];
      let ground = paper;
      for (const { node, box, fill, opacity } of shapes.slice(0, at)) {
        if (node.tagName === "text" || fill === "none") continue;
        if (x < box.left || x > box.right || y < box.top || y > box.bottom) continue;
        const paint = rgba(fill);
        ground = over(paint, paint[3] * Number(opacity), ground);
      }
      const ink = rgba(text.fill);
      worst = Math.min(worst, contrast(over(ink, ink[3], ground), ground));
    });
    const box = svg.getBoundingClientRect();
    return { name: svg.getAttribute("aria-label"), width: box.width, height: box.height, worst };
  });

  const images = [...document.images].map((image) => ({
    src: image.src,
    drawn: image.complete && image.naturalWidth > 0 && image.getBoundingClientRect().width > 0,
  }));

  const prose = document.querySelector("article").cloneNode(true);
  prose.querySelectorAll("code, pre, script, style").forEach((node) => node.remove());
  const formulas = [...document.querySelectorAll("article math")].map((math) => {
    const box = math.getBoundingClientRect();
    return { text: math.textContent, width: box.width, height: box.height };
  });
  return { pictures, images, prose: prose.textContent, formulas };
})();
