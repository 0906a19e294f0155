// Measures the page as a reader sees it: MEASURE of conftest.py, evaluated in the browser.
async () => {
  // Observers are told of a new size once per frame, in the order in which they were made: the page's own come first.
  await new Promise((resolve) => new ResizeObserver((_, observer) => { observer.disconnect(); resolve(); }).observe(document.body));
  const atoms = ".pill, .taint, .meter, .bar-track, .strip, .swatch, .tl-bar, .tl-line, button:not(.stretch), input, time"; // a short stretch is drawn wider than it is
  scrollTo(0, 0); // the top bar is sticky: over the page it covers text on purpose
  const clip = (rect, element) => {
    let { left, top, right, bottom } = rect;
    for (let up = element; up && up !== document.body; up = up.parentElement) {
      const style = getComputedStyle(up);
      if (style.overflowX === "visible" && style.overflowY === "visible") continue;
      const box = up.getBoundingClientRect();
      left = Math.max(left, box.left); right = Math.min(right, box.right);
      top = Math.max(top, box.top); bottom = Math.min(bottom, box.bottom);
    }
    return { left, top, right, bottom };
  };
  const seen = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true })
    && !element.closest(".unseen, .skip, script, style, noscript")
    && !(element.matches(".key") && getComputedStyle(element).position === "absolute"); // for the ear only

  const boxes = [];
  const add = (rect, element, name) => {
    const r = clip(rect, element);
    if (r.right - r.left > 1 && r.bottom - r.top > 1) boxes.push({ ...r, element, name });
  };
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !seen(element)) continue;
    texts.push(node);
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const rect of range.getClientRects()) {
      const trim = (rect.bottom - rect.top) * 0.15; // a line box is taller than its letters
      add({ left: rect.left, right: rect.right, top: rect.top + trim, bottom: rect.bottom - trim }, element, node.data.trim());
    }
  }
  for (const element of document.querySelectorAll(atoms)) {
    if (seen(element)) add(element.getBoundingClientRect(), element, element.className || element.localName);
  }

  const overlaps = [];
  boxes.sort((a, b) => a.top - b.top);
  for (let i = 0; i < boxes.length; i += 1) {
    for (let j = i + 1; j < boxes.length && boxes[j].top < boxes[i].bottom - 1; j += 1) {
      const [a, b] = [boxes[i], boxes[j]];
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 1 && high > 1 && !a.element.contains(b.element) && !b.element.contains(a.element)) {
        overlaps.push(`"${a.name}" and "${b.name}" by ${wide.toFixed()} x ${high.toFixed()}`);
      }
    }
  }

  // Text that runs out of the screen, or out of its panel.
  const outside = boxes.filter((box) => {
    const panel = box.element.closest(".panel, .card, .bar, .callout, .problem")?.getBoundingClientRect();
    return box.left < -1 || box.right > innerWidth + 1 || (panel && (box.left < panel.left - 1 || box.right > panel.right + 1));
  }).map((box) => box.name);

  const cut = [...document.querySelectorAll(".pill, .taint, .label, .verb, .amount, .cluster-name, .placement-name, .who")]
    .filter((element) => seen(element) && element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== "inline")
    .map((element) => element.textContent);

  const isForEyes = (element) => {
    for (let up = element; up; up = up.parentElement) if (getComputedStyle(up).clipPath !== "none") return false;
    return seen(element);
  };

  // Text of which a part is cut off, where nothing scrolls and no ellipsis shows that there is more.
  const clipped = texts.map((node) => node.parentElement).filter(isForEyes).filter((element) => {
    const { overflowX, overflowY, textOverflow, webkitLineClamp } = getComputedStyle(element);
    const wide = overflowX === "hidden" && textOverflow !== "ellipsis" && element.scrollWidth > element.clientWidth + 1;
    return wide || (overflowY === "hidden" && webkitLineClamp === "none" && element.scrollHeight > element.clientHeight + 2);
  }).map((element) => element.textContent.trim().slice(0, 40));

  // What is pressed: 24 px high and wide, 44 px where fingers press it. The strips of the calendar are read as one picture.
  const isTouch = matchMedia("(max-width: 700px), (pointer: coarse)").matches;
  const least = isTouch ? 44 : 24;
  const modal = document.querySelector("dialog:modal");
  const small = [...document.querySelectorAll("button, select, input, textarea, summary, nav a, .json, .node-name, .node-more, .cluster-name, .log-head a:not(.pill), a.label")].filter((element) => {
    if (!isForEyes(element) || (modal && !modal.contains(element))) return false;
    const { width, height } = element.getBoundingClientRect();
    const own = element.matches(".stretch, .cluster-name, .node-name, .log-head a, a.label") ? 24 : least;
    return height + 0.5 < own || (width + 0.5 < own && !element.matches(".stretch, summary"));
  }).map((element) => `${element.textContent.trim().slice(0, 30) || element.placeholder || element.id}: ${Math.round(element.offsetWidth)} x ${Math.round(element.offsetHeight)}`);

  // WCAG contrast of every text against what is painted behind it.
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
  const luminance = (colour) => {
    const [r, g, b] = colour.map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    const layers = [];
    for (let up = element; up; up = up.parentElement) {
      const colour = parse(getComputedStyle(up).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const contrasts = texts.map((node) => {
    const element = node.parentElement;
    const ground = behind(element);
    let opacity = 1;
    for (let up = element; up; up = up.parentElement) opacity *= Number(getComputedStyle(up).opacity);
    const ink = parse(getComputedStyle(element).color);
    const colour = over([ink[0], ink[1], ink[2], ink[3] * opacity], ground);
    const [light, dark] = [luminance(colour), luminance(ground)].sort((a, b) => b - a);
    return { text: node.data.trim().slice(0, 40), ratio: (light + 0.05) / (dark + 0.05) };
  });
  const faint = contrasts.filter(({ ratio }) => ratio < 4.5).map(({ text, ratio }) => `${text}: ${ratio.toFixed(2)}`);

  return {
    overlaps, outside, cut, clipped, small, faint, texts: texts.length, boxes: boxes.length,
    // a table that scrolls in its panel hides columns as well
    overflow: Math.max(...[document.documentElement, ...[...document.querySelectorAll(".scroller")].filter((box) => getComputedStyle(box).overflowX === "auto")].map((box) => box.scrollWidth - box.clientWidth)),
    lowest: Math.min(...contrasts.map(({ ratio }) => ratio)),
  };
}
