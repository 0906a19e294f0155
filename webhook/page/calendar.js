/**
 * Strips that show how many nodes of a pool may be disrupted at which times: one per reason, on a common time axis.
 *
 * A stretch is drawn exactly from its start to its end; the lines over it are the hours. Each strip is one stop of the Tab
 * key; the arrow keys move through its stretches, and so does pointing at one.
 */

import { h, isNews, patchList, say } from "./dom.js";
import { number } from "./format.js";
import { DAY, HOUR, clock, dayOf, hours, moment } from "./zone.js";

const MOST_STRETCHES = 240; // of one strip: more cannot be told apart, and are summed up by the least of each slot
const FEW = 2; // so many or fewer are shown as scarce

/** Order of the strips; reasons this page has not heard of come last. */
const REASONS = ["Drifted", "Empty", "Underutilized", "Unhealthy"];

export const LEGEND = [
  ["open", "allowed"],
  ["few", `few (1–${FEW})`],
  ["shut", "none"],
  ["unlimited", "no limit"],
  ["never", "never opens"],
];

/** The reasons of a pool in the order they are shown in. */
export function inOrder(reasons) {
  const place = ({ reason }) => (REASONS.includes(reason) ? REASONS.indexOf(reason) : REASONS.length);
  return [...reasons].sort((a, b) => place(a) - place(b));
}

/** How a stretch is shown: `open`, `few`, `shut`, `unlimited` or `never`. */
export function look(span, neverOpens) {
  if (neverOpens) return "never";
  if (span.unlimited) return "unlimited";
  if (!span.limit) return "shut";
  return span.limit <= FEW ? "few" : "open";
}

/** What stands in a stretch. */
function figure(span, kind) {
  return { unlimited: "∞", never: "never opens", shut: "0" }[kind] ?? number(span.limit);
}

/** The spans with their instants; where there are very many, slots of equal length with the least of each. */
function stretchesOf(reason, start, end) {
  const spans = reason.spans.map((span) => ({ ...span, from: Date.parse(span.start), to: Date.parse(span.end) })).filter((span) => span.to > start && span.from < end);
  if (spans.length <= MOST_STRETCHES) return spans;
  const width = (end - start) / MOST_STRETCHES;
  const slots = [];
  let first = 0;
  for (let place = 0; place < MOST_STRETCHES; place += 1) {
    const [from, to] = [start + place * width, start + (place + 1) * width];
    while (spans[first].to <= from) first += 1;
    let least = spans[first];
    for (let next = first; next < spans.length && spans[next].from < to; next += 1) if (spans[next].limit < least.limit) least = spans[next];
    const last = slots.at(-1);
    if (last && last.limit === least.limit && last.binding.join() === least.binding.join()) last.to = to;
    else slots.push({ ...least, from, to, summed: true });
  }
  return slots;
}

/** `budgets[1] (nodes "0", reasons Drifted, schedule "0 9 * * 1-5", duration 8h)`: as every message names it. */
export function budgetInWords(position, budget) {
  const reasons = budget.reasons ? [`reasons ${budget.reasons.join(", ") || "none"}`] : [];
  const schedule = budget.schedule === undefined ? ["no schedule"] : [`schedule "${budget.schedule}"`, `duration ${budget.duration}`];
  return `budgets[${position}] (${[`nodes "${budget.nodes}"`, ...reasons, ...schedule].join(", ")})`;
}

function period({ from, to }, start, end) {
  const [begins, ends] = [from <= start, to >= end];
  if (begins && ends) return "the whole time";
  if (begins) return `until ${moment(to)}`;
  if (ends) return `from ${moment(from)} on`;
  return `${moment(from)} – ${dayOf(from) === dayOf(to) ? clock(to) : moment(to)}`;
}

function amount(span, reason, kind) {
  if (kind === "never") return "never opens: no disruption is allowed at any foreseeable time";
  if (kind === "unlimited") return "no limit (∞)";
  const used = reason.disrupting ? `, ${number(reason.disrupting)} being disrupted now` : "";
  return span.limit ? `up to ${number(span.limit)} disrupted at a time${used}` : "0 disruptions allowed";
}

function words(span, reason, pool, start, end, kind) {
  const budgets = span.binding.map((position) => budgetInWords(position, pool.budgets[position])).join(", ");
  const least = span.summed ? "at its lowest " : "";
  return `${reason.reason}, ${period(span, start, end)}: ${least}${amount(span, reason, kind)}${budgets ? `; ${budgets}` : ""}`;
}

/** Labels of the axis: the first day and every midnight, and of two days every sixth hour. */
function ticks(start, end) {
  const long = end - start > 3 * DAY;
  const found = [];
  let lastDay = null;
  for (const { instant, hour, day } of hours(start, end)) {
    const isNewDay = day !== lastDay;
    lastDay = day;
    if (isNewDay) found.push({ instant, text: dayOf(instant), major: true });
    else if (!long && hour % 6 === 0 && hour && found.at(-1)?.hour !== hour) found.push({ instant, text: clock(instant), hour });
  }
  return found;
}

const GAP = 8; // px between two labels

/**
 * The labels that fit into `width` pixels, by instant: where each starts. The first and the last day come first, then the
 * other days, noon, and the other hours.
 *
 * A label that is cut off by the end moves to the left by at most half of itself.
 */
function fitting(all, start, end, width, widthOf) {
  const places = new Map();
  const fits = ({ instant, text }) => {
    const size = widthOf(text);
    const exact = ((instant - start) / (end - start)) * width;
    const left = Math.min(exact, width - size);
    const isFree = [...places.values()].every((other) => left >= other.left + other.size + GAP || left + size + GAP <= other.left);
    if (exact - left > size / 2 || !isFree) return false;
    places.set(instant, { left, size });
    return true;
  };
  const days = all.filter(({ major }) => major);
  days.slice(0, 1).forEach(fits);
  [...days].reverse().some(fits);
  days.forEach(fits);
  all.filter(({ hour }) => hour === 12).forEach(fits);
  all.forEach(fits);
  return places;
}

const percent = (value) => `${Math.round(value * 1e6) / 1e4}%`;

/** The strips of one pool. `update` may be called again with newer figures: focus stays where it is. */
export class Heat {
  constructor() {
    this.axis = h("ol", { class: "heat-axis", "aria-hidden": true });
    this.width = 0; // of the axis, in pixels
    new ResizeObserver(([{ contentRect }]) => { this.width = contentRect.width; this.fit(); }).observe(this.axis);
    this.rows = h("div", { class: "heat-rows" });
    this.detail = h("p", { class: "heat-detail quiet" });
    this.element = h("div", { class: "heat" }, h("p", { class: "heat-limit", title: "The limit of nodes that may be disrupted at the same time, including those that are being disrupted now" }, "Limit in nodes"), this.axis, this.rows, this.detail);
    this.element.addEventListener("keydown", (event) => this.walk(event));
    this.element.addEventListener("focusin", (event) => this.tell(event.target.closest(".stretch")));
    this.element.addEventListener("focusout", () => this.tell(null));
    this.element.addEventListener("mouseover", (event) => this.tell(event.target.closest(".stretch")));
    this.element.addEventListener("mouseleave", () => this.tell(document.activeElement?.closest?.(".stretch")));
  }

  /** Say what a stretch means; without one, what holds now. */
  tell(stretch) {
    const mine = stretch && this.element.contains(stretch) ? stretch : null;
    this.told?.classList.remove("told");
    this.told = mine;
    mine?.classList.add("told");
    say(this.detail, mine?.getAttribute("aria-label") ?? this.summary);
  }

  /** Arrow keys, Home and End walk the stretches of a strip; up and down change the strip at the same time. */
  walk(event) {
    const here = event.target.closest(".stretch");
    if (!here || event.altKey || event.ctrlKey || event.metaKey) return;
    const strip = [...here.parentElement.children];
    const place = strip.indexOf(here);
    const strips = [...this.rows.querySelectorAll(".heat-strip")];
    const across = strips[strips.indexOf(here.parentElement) + { ArrowUp: -1, ArrowDown: 1 }[event.key]];
    const at = Number(here.dataset.from);
    const next = across ? [...across.children].findLast((one) => Number(one.dataset.from) <= at) ?? across.firstElementChild
      : { ArrowLeft: strip[place - 1], ArrowRight: strip[place + 1], Home: strip[0], End: strip.at(-1) }[event.key];
    if (!next) return;
    event.preventDefault();
    for (const one of next.parentElement.children) one.tabIndex = one === next ? 0 : -1;
    next.focus();
  }

  /** Show the calendar of a pool from `start` to `end` (milliseconds), and what the overview says of each reason `now`. */
  update(pool, start, end, present) {
    if (!isNews(this.element, [pool, start, end, present])) return;
    this.element.classList.toggle("long", end - start > 3 * DAY);
    this.element.style.setProperty("--hours", (end - start) / (end - start > 3 * DAY ? DAY : HOUR));
    const reasons = inOrder(pool.reasons);
    this.summary = summaryOf(reasons, present);
    this.drawAxis(start, end);
    patchList(this.rows, reasons, ({ reason }) => reason,
      ({ reason }) => h("div", { class: "heat-row" }, h("span", { class: "heat-reason" }, reason), h("div", { class: "heat-strip", role: "group", "aria-label": reason })),
      (row, reason) => this.drawStrip(row.lastElementChild, reason, pool, start, end));
    this.tell(this.told?.isConnected ? this.told : null);
  }

  drawAxis(start, end) {
    const length = end - start;
    const all = ticks(start, end);
    this.shown = { all, start, end };
    patchList(this.axis, all, ({ instant }) => String(instant), () => h("li", { hidden: true }), (tick, { text, major, instant }) => {
      tick.className = major ? "major" : "minor";
      tick.style.left = percent((instant - start) / length);
      say(tick, text);
    });
    this.fit();
    // The lines between the hours, or the days: midnight is where the reader's clock has it.
    const first = all.find(({ major, instant }) => major && instant > start);
    this.element.style.setProperty("--offset", first && length > 3 * DAY ? (first.instant - start) / length : 0);
  }

  /** Show the labels of the axis that fit. */
  fit() {
    if (!this.width || !this.shown) return;
    const { all, start, end } = this.shown;
    const places = fitting(all, start, end, this.width, widths(this.axis));
    for (const tick of this.axis.children) {
      const place = places.get(Number(tick.dataset.key));
      tick.hidden = !place;
      if (place) tick.style.left = percent(place.left / this.width);
    }
  }

  drawStrip(strip, reason, pool, start, end) {
    const stretches = stretchesOf(reason, start, end);
    patchList(strip, stretches, ({ from }) => String(from),
      () => h("button", { type: "button", class: "stretch", tabindex: -1 }, h("b", { "aria-hidden": true })),
      (element, span) => {
        const kind = look(span, reason.neverOpens);
        element.className = `stretch ${kind}`;
        element.dataset.from = span.from;
        const left = Math.max(span.from, start);
        element.style.left = percent((left - start) / (end - start));
        element.style.setProperty("--left", (left - start) / (end - start));
        element.style.width = percent((Math.min(span.to, end) - left) / (end - start));
        element.setAttribute("aria-label", words(span, reason, pool, start, end, kind));
        const text = figure(span, kind);
        element.dataset.size = text.length > 3 ? "word" : kind === "unlimited" ? 3 : text.length;
        say(element.firstElementChild, text);
      });
    const focused = [...strip.children].find((one) => one === document.activeElement);
    for (const one of strip.children) one.tabIndex = one === (focused ?? strip.firstElementChild) ? 0 : -1;
  }
}

/** A function that measures a text in the font of an element. */
function widths(element) {
  const { fontSize, fontFamily } = getComputedStyle(element);
  const context = document.createElement("canvas").getContext("2d");
  context.font = `${fontSize} ${fontFamily}`;
  return (text) => Math.ceil(context.measureText(text).width) + 2;
}

/** What is left now, of how much, and until when; after each the reasons for which it holds, if it does not hold for all. */
function summaryOf(reasons, present) {
  const same = new Map();
  for (const reason of reasons) {
    const text = now(reason, present.items.find((item) => item.reason === reason.reason), present.at);
    same.set(text, [...(same.get(text) ?? []), reason.reason]);
  }
  const parts = [...same].map(([text, names]) => (names.length === reasons.length ? text : `${text} (${names.join(", ")})`));
  return `Now: ${parts.join(" · ")}`;
}

function now(reason, item, at) {
  const first = reason.spans.find((span) => Date.parse(span.end) > at) ?? reason.spans.at(-1);
  const kind = look(first, reason.neverOpens);
  if (kind === "never") return "never opens";
  const change = reason.spans.find((span) => Date.parse(span.start) > at && (look(span, reason.neverOpens) !== kind || span.limit !== first.limit));
  const until = change ? ` until ${moment(Date.parse(change.start))}` : "";
  if (kind === "unlimited") return `no limit${until}`;
  if (kind === "shut") return `none${until}`;
  const { remaining, limit } = item ?? { remaining: first.limit, limit: first.limit };
  return `${remaining ? number(remaining) : "none"} of ${number(limit)} left${until}`;
}
