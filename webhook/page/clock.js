/**
 * Ages that tick.
 *
 * An age belongs to an instant of the server's clock. The offset to this machine's clock is taken from the
 * Date header of every answer, so that a wrong clock on either side does not show.
 */

import { age } from "./format.js";
import { h, say } from "./dom.js";

let offset = 0;

/** Note the Date header of an answer that has just arrived. */
export function readClock(header) {
  const there = Date.parse(header ?? "");
  if (Number.isNaN(there)) return;
  const difference = there + 500 - Date.now(); // the header has whole seconds: half of one is its mean error
  if (Math.abs(difference - offset) > 1500) offset = difference;
}

/** Now, in milliseconds of the server's clock. */
export function serverNow() {
  return Date.now() + offset;
}

const words = (element) => `${element.dataset.before ?? ""}${age((serverNow() - Number(element.dataset.since)) / 1000)}${element.dataset.after ?? ""}`;

/** An age since `instant` (milliseconds) that ticks; the words around it belong to it. */
export function ticking(instant, before = "", after = "") {
  const element = h("time", { "data-since": instant, "data-before": before, "data-after": after, datetime: new Date(instant).toISOString() });
  element.textContent = words(element);
  return element;
}

/** Let an element tick from another instant on. */
export function retime(element, instant) {
  element.dataset.since = instant;
  element.setAttribute("datetime", new Date(instant).toISOString());
  say(element, words(element));
}

setInterval(() => {
  if (document.hidden) return;
  for (const element of document.querySelectorAll("time[data-since]")) say(element, words(element));
}, 1000);
