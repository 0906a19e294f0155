/**
 * Building and patching elements.
 *
 * Text from the API only ever becomes a text node or an attribute value; nothing here parses markup.
 * Lists are patched by key, so that focus, open disclosures and scroll positions survive a live update.
 */

/** Make an element. `on…` properties become listeners, true an empty attribute (of `aria-…`: "true"), null and false nothing. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

/** Set the text of an element, touching the document only when it differs. An age that ticks is not a text. */
export function say(element, text) {
  if (element.textContent !== text || element.firstElementChild) element.textContent = text;
}

const rowsOf = new WeakMap();

/**
 * Make the children of `parent` match `items`: one element per key, in order, elements of known keys kept.
 *
 * `update(element, item, isNew)` runs for every item.
 */
export function patchList(parent, items, keyOf, make, update) {
  const before = rowsOf.get(parent) ?? new Map();
  const after = new Map(items.map((item) => [keyOf(item), before.get(keyOf(item))]));
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  for (const child of [...parent.children]) {
    if (after.get(child.dataset.key) !== child) child.remove();
  }
  let cursor = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let element = after.get(key);
    const isNew = !element;
    if (isNew) {
      element = make(item);
      element.dataset.key = key;
      after.set(key, element);
    }
    update(element, item, isNew);
    if (element === cursor) cursor = cursor.nextElementSibling;
    else parent.insertBefore(element, cursor);
  }
  rowsOf.set(parent, after);
  if (focused?.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
}

const seen = new WeakMap();

/** Whether `value` differs from what was last shown in `element`; remembers it. */
export function isNews(element, value) {
  const text = JSON.stringify(value) ?? "";
  if (seen.get(element) === text) return false;
  seen.set(element, text);
  return true;
}

/** Scroll the box of a list to its current row, when another row becomes the current one. */
export function reveal(list) {
  const [box, row] = [list.parentElement, list.querySelector("[aria-current]")];
  if (!row || box.scrollHeight <= box.clientHeight || !isNews(list, row.getAttribute("href"))) return;
  const [frame, own] = [box.getBoundingClientRect(), row.getBoundingClientRect()];
  if (own.top < frame.top || own.bottom > frame.bottom) box.scrollTop += own.top - frame.top - frame.height / 4;
}

/** Call `growth` whenever the size of an element changes, until it returns true or the reader does something. */
export function whileGrowing(element, growth) {
  const observer = new ResizeObserver(() => growth() === true && observer.disconnect()); // some methods return a promise
  observer.observe(element);
  for (const event of ["wheel", "touchstart", "keydown", "pointerdown"]) addEventListener(event, () => observer.disconnect(), { once: true, passive: true });
}

/** Mark an element as just changed, for a moment. */
export function flash(element) {
  element.classList.remove("changed");
  void element.offsetWidth; // restarts the animation when two changes follow each other
  element.classList.add("changed");
}

/** A state as a pill, coloured by its tone. */
export function pill(text, tone) {
  return h("span", { class: `pill ${tone}` }, text);
}
