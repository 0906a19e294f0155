/** The disruption budgets: per pool a strip for every reason, what is odd about its budgets, and how to put it right. */

import { address, change } from "./address.js";
import { serverNow } from "./clock.js";
import { h, isNews, patchList, say } from "./dom.js";
import { count, matches, number } from "./format.js";
import { Heat, LEGEND, budgetInWords, inOrder } from "./calendar.js";
import { call } from "./server.js";
import { DAY, ZONE, fullHour, moment } from "./zone.js";

const FILTER_FROM = 9; // fewer pools are seen at a glance
const PAGE = 20; // so many more with each press of the button
const AT_ONCE = 50; // pools per request

/** Where the API keeps the calendar of some pools. */
export function calendarPath(pools, start, days) {
  const from = new Date(start).toISOString().replace(/\.\d+Z$/, "Z");
  const query = new URLSearchParams([...pools.map((pool) => ["pool", pool]), ["from", from], ["days", String(days)]]);
  return `/v1/budgets/calendar?${query}`;
}

/** Pools with mistakes come first in a cut list, then those that are warned of. */
function urgency(entry) {
  return entry.unusable.length ? 0 : entry.lints.length ? 1 : 2;
}

/** The corrected budgets as they stand in a NodePool, one on a line. */
export function yaml(budgets) {
  const text = (key, value) => (key === "reasons" ? `[${value.join(", ")}]` : key === "duration" ? value : JSON.stringify(value));
  const lines = budgets.map((budget) => `- {${Object.entries(budget).map(([key, value]) => `${key}: ${text(key, value)}`).join(", ")}}`);
  return ["budgets:", ...lines].join("\n");
}

/** What is to be known about the budgets of a pool besides the strips. */
function notes(pool) {
  const wrong = pool.unusable.map(({ budget, message }) => ({
    tone: "bad", key: `wrong ${budget}`, text: [h("b", {}, `budgets[${budget}] is invalid`), ", so no disruption is allowed: ", message],
  }));
  const lints = pool.lints.map((lint, place) => ({
    tone: "warn", key: `lint ${place}`, fix: lint.fix, alternative: lint.alternative, text: [h("b", {}, lint.at), ": ", lint.message],
  }));
  const told = new Set(pool.lints.flatMap((lint) => lint.reasons));
  const closed = wrong.length ? [] : inOrder(pool.reasons).filter(({ reason, neverOpens }) => neverOpens && !told.has(reason));
  const by = new Map();
  for (const { reason, spans } of closed) {
    const budgets = (spans.at(-1)?.binding ?? []).map((place) => budgetInWords(place, pool.budgets[place])).join(", ");
    by.set(budgets, [...(by.get(budgets) ?? []), reason]);
  }
  const shut = [...by].map(([budgets, reasons]) => ({
    tone: "calm", key: `shut ${reasons}`, text: [h("b", {}, reasons.join(", ")), ` never ${reasons.length > 1 ? "open" : "opens"}${budgets ? `: ${budgets}` : ""}`],
  }));
  return [...wrong, ...lints, ...shut];
}

function note({ tone, text, fix, alternative }) {
  const correction = (budgets, title) => (budgets ? [h("p", {}, title), h("pre", {}, h("code", {}, yaml(budgets)))] : []);
  const first = correction(fix, alternative ? "Possible correction for 0 outside the windows:" : "Possible correction:");
  const other = correction(alternative, "Possible correction for the default of 10% outside the windows:");
  return h("div", { class: `callout ${tone}` }, h("p", {}, text), first, other);
}

/** The panel: keeps what the viewer typed, unfolded and switched to between updates. */
export class BudgetsView {
  constructor({ body, sub, filter, span, firstRows, onWish }) {
    Object.assign(this, { body, sub, filter, span, firstRows, onWish, shown: 0, days: 2, overview: null, calendars: new Map() });
    this.heats = new Map();
    this.list = h("ol", { class: "pools" });
    this.note = h("p", { class: "quiet", hidden: true });
    this.legend = h("ul", { class: "legend heat-legend" }, LEGEND.map(([kind, text]) => h("li", { "data-kind": kind }, h("i", { class: `swatch ${kind}`, "aria-hidden": true }), h("span", {}, text))));
    this.more = h("button", { type: "button", class: "more", onclick: () => { this.shown += PAGE; this.wish(); } });
    filter.addEventListener("input", () => { this.shown = 0; change({ q: filter.value }); this.wish(true); });
    span.addEventListener("click", () => { change({ days: this.days === 2 ? "14" : "" }); this.wish(); });
  }

  wish(typing = false) {
    this.render();
    this.onWish(typing);
  }

  /** The pools that are listed now. */
  listed() {
    const entries = this.overview?.pools ?? [];
    const wanted = this.filter.hidden ? [] : this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = wanted.length ? entries.filter(({ pool }) => wanted.every((word) => pool.toLowerCase().includes(word))) : entries;
    const limit = this.firstRows() + this.shown;
    const cut = found.length > limit ? [...found].sort((a, b) => urgency(a) - urgency(b)).slice(0, limit) : found;
    return { found, cut, names: cut.map(({ pool }) => pool), filtered: wanted.length > 0 };
  }

  /** Where the calendars of the listed pools are: as few requests as they fit into. */
  paths() {
    const { names } = this.listed();
    this.start = fullHour(serverNow());
    const paths = [];
    for (let first = 0; first < names.length; first += AT_ONCE) paths.push(calendarPath(names.slice(first, first + AT_ONCE), this.start, this.days));
    return paths;
  }

  /** Take in the answer of `GET /v1/budgets`. */
  show(overview) {
    this.overview = overview;
    const names = new Set(overview.pools.map(({ pool }) => pool));
    for (const pool of this.calendars.keys()) if (!names.has(pool)) this.calendars.delete(pool);
    this.filter.hidden = names.size < FILTER_FROM;
    this.render();
  }

  /** Take in an answer of `GET /v1/budgets/calendar`. */
  add({ from, until, items }) {
    const [start, end] = [Date.parse(from), Date.parse(until)];
    for (const item of items) this.calendars.set(item.pool, { item, start, end });
    this.render();
  }

  render() {
    const { body, sub, overview, filter } = this;
    if (!overview) return;
    const { view, query } = address();
    if (view === "budgets") {
      this.days = query.get("days") === "14" ? 14 : 2;
      if (filter.value !== (query.get("q") ?? "")) filter.value = query.get("q") ?? "";
    }
    const { pools } = overview;
    this.span.hidden = !pools.length;
    say(this.span, this.days === 2 ? "next 14 days" : "next 48 hours");
    if (!pools.length) {
      say(sub, "");
      if (isNews(body, "empty")) {
        body.replaceChildren(h("p", { class: "quiet nothing" }, "No NodePool yet. Add one with ",
          h("code", {}, call("apply -f pool.yaml")), ". It then appears here automatically."));
      }
      return;
    }
    if (isNews(body, "list")) body.replaceChildren(this.list, this.note, this.more, this.legend);
    const { found, cut: wished, filtered } = this.listed();
    const cut = wished.filter(({ pool }) => this.calendars.has(pool)); // one without its strips would grow later
    patchList(this.list, cut, ({ pool }) => pool, ({ pool }) => this.makePool(pool), (element, entry) => this.updatePool(element, entry));
    const matching = filtered ? `; ${matches(found.length)}` : "";
    const part = cut.length < found.length ? `; ${number(cut.length)} shown, those with warnings first` : "";
    say(sub, `${count(pools.length, "pool")}${matching}${part} · next ${this.days === 2 ? "48 hours" : "14 days"}, times in ${ZONE}`);
    this.list.hidden = this.legend.hidden = !cut.length;
    this.note.hidden = cut.length > 0;
    say(this.note, found.length ? "Loading the budgets…" : "No pool matches the filter.");
    this.more.hidden = cut.length >= found.length;
    say(this.more, `Show ${number(Math.min(PAGE, found.length - cut.length))} more of ${count(found.length, "pool")}`);
    for (const item of this.legend.children) {
      const kind = item.dataset.kind;
      item.hidden = ["unlimited", "never"].includes(kind) && !this.list.querySelector(`.stretch.${kind}`);
    }
  }

  makePool(pool) {
    const heat = new Heat();
    this.heats.set(pool, heat);
    return h("li", { class: "pool" },
      h("header", { class: "pool-head" }, h("h3", {}, pool), h("p", { class: "sub" }), h("a", { class: "json" }, "show as JSON")),
      heat.element, h("div", { class: "pool-notes" }));
  }

  updatePool(element, { pool, counts, budgets }) {
    const [head, , below] = element.children;
    const going = [counts.deleting ? `${number(counts.deleting)} disrupting` : "", counts.notReady ? `${number(counts.notReady)} not ready` : ""];
    say(head.children[1], [count(counts.total, "node"), ...going, count(budgets.length, "budget")].filter(Boolean).join(" · "));
    const known = this.calendars.get(pool);
    const heat = this.heats.get(pool);
    heat.element.hidden = !known;
    if (!known) {
      head.children[2].href = calendarPath([pool], this.start ?? fullHour(serverNow()), this.days);
      return;
    }
    head.children[2].href = calendarPath([pool], known.start, Math.round((known.end - known.start) / DAY));
    const { at, items } = this.overview;
    heat.update(known.item, known.start, known.end, { at: Date.parse(at), items: items.filter((item) => item.pool === pool) });
    const found = notes(known.item);
    if (isNews(below, [known.item.unusable, known.item.lints, found.map(({ key }) => key), known.item.budgets])) below.replaceChildren(...found.map(note));
  }
}

/** The card of the summary; none where there is no pool. */
export function budgetsCard(overview, calendars) {
  if (!overview?.pools.length) return null;
  const most = new Map();
  for (const item of overview.items) {
    const left = Math.min(item.remaining, Math.max(0, item.total - item.disrupting));
    const known = most.get(item.pool);
    if (!known || left > known.left) most.set(item.pool, { left, reason: item.reason });
  }
  const open = [...most].filter(([, { left }]) => left);
  return { name: "Disruptions allowed now", value: open.reduce((sum, [, { left }]) => sum + left, 0), words: cardWords(overview, most, open, calendars) };
}

function cardWords(overview, most, open, calendars) {
  if (!open.length) {
    const next = overview.items.map((item) => item.nextOpen).filter(Boolean).sort()[0];
    return next ? `none until ${moment(Date.parse(next))}` : "no scheduled opening";
  }
  if (most.size > 1) return `in ${number(open.length)} of ${count(most.size, "pool")}`;
  const [[pool, { reason }]] = open;
  const spans = calendars.get(pool)?.item.reasons.find((one) => one.reason === reason)?.spans ?? [];
  const change = spans.find((span) => span.limit !== spans[0].limit);
  return `pool ${pool}${change ? `, until ${moment(Date.parse(change.start))}` : ""}`;
}
