/**
 * An update drawn over time: a band per stage, a bar per cluster, a dashed line per wait.
 *
 * Names stand left of the track and words right of it, so that no text is ever placed by its time and none can cover
 * another. Stretches in which no cluster is touched are drawn shorter than they are, behind a broken background: else an
 * approval that came on Monday would make dots of the bars of Friday.
 */

import { retime, serverNow, ticking } from "./clock.js";
import { h, isNews, patchList, say } from "./dom.js";
import { age, count, number, tally } from "./format.js";
import { pillOf } from "./reference.js";
import { HOUR, clock, local, localTimes, moment } from "./zone.js";

const CALM = 24; // clusters; in a longer timeline, a band at rest is one line
const ACTIVE = ["updating", "waiting", "stopping", "stopped", "failed"];
const QUIET_SHARE = 0.3; // of the busy time: the longest that an idle stretch is drawn
const TAIL = 0.04; // of the axis: room after now while there is more to come
const LETTER = 7; // px
const MOST_LENGTHS = 6; // of idle stretches in the legend

const TONES = { skipped: "calm", updated: "good", updating: "busy", failed: "bad", waiting: "warn", left: "calm", "not reached": "calm" };
const BAND_TONES = { done: "good", updating: "busy", failed: "bad", waiting: "warn", stopping: "warn", stopped: "warn" };
const STATES = ["failed", "updating", "waiting", "left", "skipped", "updated", "not reached"];
const WAITS = { "scheduled before": "scheduled start", "scheduled after": "scheduled start" };
const BEFORE = ["approval before", "scheduled before"];
const APPROVALS = ["approval before", "approval after"];

const instant = (text) => (text ? Date.parse(text) : null);

const span = (given) => (given ? { from: instant(given.from), to: instant(given.to) } : null);

/** The document with instants in milliseconds; what is still open ends now. */
function read(document, now) {
  const open = document.endedAt === null;
  const bars = (band) => band.bars.map((bar) => {
    const from = instant(bar.startedAt);
    return { ...bar, from, to: from === null ? null : instant(bar.endedAt) ?? now, plan: span(bar.forecast), open: (bar.windows ?? []).map(span) };
  });
  const marks = (band) => band.marks.map((mark) => {
    const from = instant(mark.since);
    return { ...mark, from, to: from === null ? null : instant(mark.until) ?? (open ? now : instant(document.endedAt)) };
  });
  return document.bands.map((band) => ({ ...band, bars: bars(band), marks: marks(band), from: instant(band.startedAt), to: instant(band.endedAt) }));
}

/** Merge stretches that touch. */
function merged(stretches) {
  const out = [];
  for (const [from, to] of [...stretches].sort((a, b) => a[0] - b[0])) {
    const last = out.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else out.push([from, to]);
  }
  return out;
}

/**
 * The axis: which share of the width lies before an instant, and which stretches are drawn short.
 *
 * `bands` as `read` returns them.
 */
export function axisOf(bands, begin, end, open) {
  const plans = bands.flatMap((band) => band.bars.map((bar) => bar.plan).filter((plan) => plan && plan.to > begin));
  const windows = bands.flatMap((band) => band.bars.filter((bar) => bar.plan).map((bar) => used(bar)?.to ?? 0));
  const last = Math.max(begin + 1000, end, ...bands.flatMap((band) => band.marks.map((mark) => mark.to ?? 0)), ...plans.map((plan) => plan.to), ...windows);
  const done = bands.flatMap((band) => band.bars.filter((bar) => bar.from !== null).map((bar) => [bar.from, Math.max(bar.to, bar.from)]));
  const busy = merged([...done, ...plans.map((plan) => [Math.max(plan.from, begin), plan.to])]);
  const total = busy.reduce((sum, [from, to]) => sum + to - from, 0);
  const most = Math.max(total * QUIET_SHARE, 1000);
  const pieces = [];
  let at = begin;
  const idle = (until) => {
    if (until > at) pieces.push({ from: at, to: until, size: total ? Math.min(until - at, most) : until - at });
  };
  for (const [from, to] of busy) {
    idle(from);
    if (to > from) pieces.push({ from, to, size: to - from });
    at = Math.max(at, to);
  }
  idle(last);
  let sum = 0;
  for (const piece of pieces) {
    piece.left = sum;
    sum += piece.size;
  }
  const whole = (sum || 1) * (open ? 1 + TAIL : 1);
  const place = (when) => {
    const piece = pieces.findLast((one) => one.from <= when) ?? pieces[0];
    if (!piece) return 0;
    const share = Math.min(1, Math.max(0, (when - piece.from) / (piece.to - piece.from)));
    return (piece.left + share * piece.size) / whole;
  };
  const short = pieces.filter((piece) => piece.size < (piece.to - piece.from) * 0.6)
    .map((piece) => ({ from: piece.from, to: piece.to, left: piece.left / whole, right: (piece.left + piece.size) / whole }));
  return { place, short, last, begin };
}

const percent = (share) => `${Math.round(share * 1e4) / 100}%`;

/** `8:12:10` in a short timeline, `8:12` in a long one, `Mon 8:12` over days. */
function timeIn(span) {
  if (span > 18 * HOUR) return (when) => `${local(when).weekday} ${clock(when)}`;
  if (span > HOUR / 2) return clock;
  return (when) => clock(when).replace(/^\d+:\d+/, (text) => `${text}:${String(Math.floor(when / 1000) % 60).padStart(2, "0")}`);
}

/** The times to name: the most important first, each only if it does not come too close to those before it. */
function ticks(bands, axis, now, ended, width) {
  const format = timeIn(axis.last - axis.begin);
  const wished = [];
  const wish = (when, kind = "") => { if (when !== null) wished.push({ when, kind, text: kind === "now" ? `now ${format(when)}` : format(when) }); };
  if (ended === null) wish(now, "now");
  wish(axis.begin);
  wish(ended ?? (axis.last > now ? axis.last : null));
  for (const band of bands) wish(band.from);
  for (const band of bands) wish(band.bars.reduce((first, { plan }) => (plan && plan.from > now ? Math.min(first ?? plan.from, plan.from) : first), null));
  for (const { from, to, left, right } of axis.short) wished.push({ when: from, within: [left, right], kind: "idle", text: `↔ ${age((to - from) / 1000)}` });
  for (const band of bands) wish(band.to);
  const out = [];
  for (const tick of wished) {
    const size = tick.text.length * LETTER + 8;
    const [low, high] = (tick.within ?? [axis.place(tick.when), axis.place(tick.when)]).map((share) => share * width);
    if ((tick.within && size > high - low) || out.some((other) => other.text === tick.text)) continue;
    const places = [(low + high - size) / 2, ...(tick.within ? [low, high - size] : [low, low - size])].map((left) => Math.min(Math.max(0, left), Math.max(0, width - size)));
    const left = places.find((place) => out.every((other) => place >= other.left + other.size || place + size <= other.left));
    if (left !== undefined) out.push({ ...tick, left, size });
  }
  return out.sort((a, b) => a.left - b.left);
}

/** What comes first when not all bars can be shown. */
function urgency(bar) {
  if (bar.state === "waiting") return bar.detail ? 2 : 5;
  return { failed: 0, updating: 1, left: 3, updated: 4 }[bar.state] ?? 6;
}

/** The bars to show, in their order, and the others. */
function folded(bars, limit) {
  if (bars.length <= limit + 1) return [bars, []];
  const ranked = bars.map((bar, place) => ({ bar, place }));
  ranked.sort((a, b) => urgency(a.bar) - urgency(b.bar) || (a.bar.state === "updated" ? b.bar.to - a.bar.to : 0) || a.place - b.place);
  const chosen = new Set(ranked.slice(0, limit).map(({ bar }) => bar));
  return [bars.filter((bar) => chosen.has(bar)), bars.filter((bar) => !chosen.has(bar))];
}

const listed = (bars) => tally(bars, (bar) => bar.state, STATES).map(([state, n]) => `${number(n)} ${state}`).join(", ");

/** From when to when, for people; within a minute, both ends would read the same. */
function period(from, to, format) {
  if (to !== null && format(from) === format(to)) return `${format(from)} (${age((to - from) / 1000)})`;
  return to === null ? `since ${format(from)}` : `${format(from)} – ${format(to)} (${age((to - from) / 1000)})`;
}

/** The timeline of one run or placement. `update` may be called again with newer documents: focus stays where it is. */
export class Timeline {
  constructor({ firstRows }) {
    this.firstRows = firstRows;
    this.unfolded = new Set();
    this.document = null;
    this.axis = h("ol", { class: "tl-axis", "aria-hidden": true });
    this.bands = h("div", { class: "tl-bands" });
    this.detail = h("p", { class: "tl-detail quiet" });
    this.legend = h("ul", { class: "tl-legend", "aria-hidden": true });
    this.element = h("div", { class: "timeline" }, h("div", { class: "tl-row" }, this.axis), this.bands, this.legend, this.detail);
    this.element.addEventListener("keydown", (event) => this.walk(event));
    this.element.addEventListener("focusin", (event) => this.tell(event.target.closest(".tl-item")));
    this.element.addEventListener("focusout", () => this.tell(null));
    this.element.addEventListener("mouseover", (event) => this.tell(event.target.closest(".tl-item")));
    this.element.addEventListener("mouseleave", () => this.tell(document.activeElement?.closest?.(".tl-item")));
    new ResizeObserver(() => this.render()).observe(this.axis);
  }

  /** Another run or placement: what was unfolded is forgotten. */
  reset() {
    this.unfolded.clear();
    this.document = null;
  }

  /** Say when a row was; without one, how many clusters are how far. */
  tell(row) {
    const mine = row && this.element.contains(row) ? row : null;
    this.told?.classList.remove("told");
    this.told = mine;
    mine?.classList.add("told");
    say(this.detail, mine?.dataset.words ?? this.summary ?? "");
  }

  /** Arrow keys, Home and End walk the rows: the whole timeline is one stop of the Tab key. */
  walk(event) {
    const here = event.target.closest(".tl-item");
    if (!here || event.target !== here || event.altKey || event.ctrlKey || event.metaKey) return;
    const rows = [...this.bands.querySelectorAll(".tl-item")];
    const place = rows.indexOf(here);
    const next = { ArrowUp: rows[place - 1], ArrowDown: rows[place + 1], Home: rows[0], End: rows.at(-1) }[event.key];
    if (!next) return;
    event.preventDefault();
    this.stop(next);
    next.focus();
  }

  /** Make one row the stop of the Tab key. */
  stop(wanted) {
    const rows = [...this.bands.querySelectorAll(".tl-item")];
    const focused = rows.find((row) => row === (wanted ?? document.activeElement));
    for (const row of rows) row.tabIndex = row === (focused ?? rows[0]) ? 0 : -1;
  }

  /** Show a timeline. */
  update(document) {
    this.document = document;
    this.render();
  }

  /** Time has passed: what is not over goes on. */
  advance() {
    if (this.document && this.document.endedAt === null) this.render();
  }

  render() {
    const { document: doc } = this;
    if (!doc) return;
    const ended = instant(doc.endedAt);
    const now = serverNow();
    const bands = read(doc, ended ?? now);
    const begin = instant(doc.startedAt) ?? now;
    const axis = axisOf(bands, begin, ended ?? now, ended === null);
    const format = timeIn(axis.last - axis.begin);
    this.element.style.setProperty("--now", ended === null ? percent(axis.place(now)) : "-9px");
    const named = this.drawAxis(bands, axis, now, ended);
    this.drawLegend(bands, axis, named);
    const all = bands.reduce((sum, band) => sum + band.bars.length, 0);
    patchList(this.bands, bands, (band) => band.name, makeBand, (element, band) => this.drawBand(element, band, axis, format, all));
    this.summary = listed(bands.flatMap((band) => band.bars)) || "no clusters";
    if (!this.told?.isConnected) this.tell(null);
    else this.tell(this.told);
    this.stop();
  }

  /** Returns the starts of the idle stretches whose length is on the axis. */
  drawAxis(bands, axis, now, ended) {
    const found = isLaidOut(this.axis) ? ticks(bands, axis, now, ended, this.axis.clientWidth) : [];
    patchList(this.axis, found, (tick) => `${tick.kind}${tick.kind === "now" ? "" : tick.when}`, () => h("li"), (element, tick) => {
      element.className = tick.kind;
      element.style.left = `${tick.left}px`;
      element.style.width = `${tick.size}px`;
      say(element, tick.text);
    });
    return found.filter((tick) => tick.kind === "idle").map((tick) => tick.when);
  }

  /** Explain the shades, with the lengths of the idle stretches that have no room on the axis. */
  drawLegend(bands, axis, named) {
    const bars = bands.flatMap((band) => band.bars);
    const lengths = axis.short.filter(({ from }) => !named.includes(from)).map(({ from, to }) => age((to - from) / 1000));
    const kinds = [
      bars.some((bar) => bar.plan) ? ["tl-forecast", "expected"] : null,
      bars.some((bar) => bar.open.length) ? ["tl-window", "maintenance window"] : null,
      axis.short.length ? ["tl-gap", ["idle time, shortened", lengths.slice(0, MOST_LENGTHS).join(", ") + (lengths.length > MOST_LENGTHS ? " …" : "")].filter(Boolean).join(": ")] : null,
    ].filter(Boolean);
    this.legend.hidden = !kinds.length;
    patchList(this.legend, kinds, ([kind]) => kind, ([kind]) => h("li", {}, h("i", { class: kind }), h("span")), (element, [, words]) => say(element.lastElementChild, words));
  }

  drawBand(element, band, axis, format, all) {
    const [head, list] = element.children;
    const fold = element.lastElementChild;
    element.style.setProperty("--from", percent(band.from === null ? 0 : axis.place(band.from)));
    element.style.setProperty("--to", percent(band.from === null ? 0 : axis.place(band.to ?? Math.max(axis.last, ...band.bars.map((bar) => bar.to ?? 0)))));
    element.style.setProperty("--gap", broken(axis.short.filter(({ from, to }) => concerns(band, from, to))));
    drawHead(head, band);
    const isOpen = this.unfolded.has(band.name);
    const toggle = () => {
      if (isOpen) this.unfolded.delete(band.name);
      else this.unfolded.add(band.name);
      this.render();
    };
    const isShort = all > CALM && !ACTIVE.includes(band.state) && band.bars.length > 1;
    head.hidden = isShort && !isOpen;
    if (head.hidden) {
      patchList(list, [band], () => "short", makeRow, (row) => drawShort(row, band, axis, toggle));
      fold.hidden = true;
      return;
    }
    const limit = isShort ? 0 : this.firstRows();
    const [shown, rest] = isOpen ? [band.bars, []] : folded(band.bars, limit);
    const before = band.marks.filter((mark) => BEFORE.includes(mark.kind));
    const rows = [...before, ...shown, ...(rest.length ? [{ rest }] : []), ...band.marks.filter((mark) => !before.includes(mark))];
    patchList(list, rows, keyOf, makeRow, (row, item) => {
      if (item.rest) drawRest(row, item.rest, axis);
      else if (item.cluster !== undefined) drawBar(row, item, axis, format, band);
      else drawMark(row, item, axis, format, band);
    });
    list.classList.toggle("all", shown.length > 60);
    fold.hidden = band.bars.length <= limit + 1;
    say(fold, !isOpen ? `Show all ${number(band.bars.length)} clusters` : isShort ? `Fold ${band.name}` : `Show ${number(limit)} clusters only`);
    fold.setAttribute("aria-expanded", String(isOpen));
    fold.onclick = toggle;
  }
}

const isLaidOut = (element) => element.isConnected && element.clientWidth > 0;

/** Whether a band was begun, or waited, before the end of a stretch and was not over when that began. */
function concerns(band, from, to) {
  const begun = [band.from, ...band.marks.map((mark) => mark.from)].filter((when) => when !== null);
  const ended = Math.max(band.to ?? (band.from === null ? 0 : Infinity), ...band.marks.map((mark) => mark.to ?? 0));
  return begun.length > 0 && Math.min(...begun) < to && ended > from;
}

/** The background of idle stretches, as layers of a track. */
function broken(stretches) {
  if (!stretches.length) return "none";
  return stretches.slice(0, 20).map(({ left: from, right: to }) =>
    `repeating-linear-gradient(to right, var(--tl-gap) 0 1px, transparent 1px 5px) ${percent(from / Math.max(1e-6, 1 - (to - from)))} 0 / ${percent(to - from)} 100% no-repeat`).join(", ");
}

function keyOf(item) {
  if (item.rest) return "rest";
  return item.cluster !== undefined ? `c ${item.cluster}` : `w ${item.kind} ${item.request}`;
}

function makeBand() {
  return h("section", { class: "tl-band" },
    h("div", { class: "tl-row tl-head" }, h("h3", { class: "tl-who" }), h("div", { class: "tl-track" }), h("span", { class: "tl-amount" })),
    h("ul", { class: "tl-rows" }),
    h("button", { type: "button", class: "more", hidden: true }));
}

function makeRow() {
  return h("li", { class: "tl-row tl-item", tabindex: -1 },
    h("span", { class: "tl-who", "aria-hidden": true }),
    h("div", { class: "tl-track", "aria-hidden": true }),
    h("span", { class: "tl-amount", "aria-hidden": true }),
    h("p", { class: "tl-words", "aria-hidden": true }),
    h("span", { class: "unseen" }));
}

function drawHead(head, band) {
  const [who, track, amount] = head.children;
  say(who, band.name);
  who.title = band.name;
  const plan = [
    count(band.bars.length, "cluster"),
    band.atOnce && band.bars.length > 1 ? (band.atOnce === 1 ? "one at a time" : `${number(band.atOnce)} at a time`) : "",
  ].filter(Boolean).join(", ");
  const words = band.deletes ? `removal from ${plan}` : plan;
  if (isNews(track, [words, band.state, band.detail])) {
    track.replaceChildren(h("span", { class: "tl-plan" }, words), " ",
      pillOf(band.state, band.state, BAND_TONES[band.state] ?? "calm"), ...(band.detail ? [" ", h("span", { class: "tl-trouble" }, localTimes(band.detail))] : []));
  }
  say(amount, band.from !== null && band.to !== null ? age((band.to - band.from) / 1000) : "");
  head.parentElement.setAttribute("aria-label", `${band.name}: ${band.state}`);
}

/** Put a bar of a class into a track, or take it away. */
function stretch(track, from, to, style, axis) {
  const left = axis.place(from);
  const bar = track.firstElementChild ?? track.appendChild(h("i"));
  bar.className = style;
  bar.style.left = percent(left);
  bar.style.width = percent(Math.max(0, axis.place(to) - left));
}

/** Show the words of a row: right of the track, below it, and for the ear. */
function label(row, { who, amount, since = null, after = "", tone, words = "", told, named = null }) {
  const [name, , figure, below, ear] = row.children;
  say(named ?? name, who);
  name.title = who;
  figure.className = `tl-amount ${tone}`;
  const shown = figure.firstElementChild;
  if (since !== null && shown?.localName === "time" && shown.dataset.before === amount) retime(shown, since);
  else if (since !== null) figure.replaceChildren(ticking(since, amount, after));
  else say(figure, amount);
  say(below, words);
  below.className = `tl-words ${tone}`;
  row.dataset.words = told;
  say(ear, told);
}

function drawBar(row, bar, axis, format, band) {
  const track = row.children[1];
  const tone = TONES[bar.state] ?? "calm";
  const style = `tl-bar ${bar.state === "not reached" ? "calm" : tone}`;
  if (bar.plan || bar.open.length) drawExpected(track, bar, style, axis);
  else if (bar.from === null) track.replaceChildren();
  else stretch(track, bar.from, bar.to, style, axis);
  row.classList.toggle("tl-faint", !bar.plan && (bar.state === "not reached" || (bar.state === "waiting" && !bar.detail)));
  const done = bar.from !== null && bar.endedAt !== null;
  const state = band.deletes && bar.state === "updated" ? "removed" : band.deletes && bar.state === "updating" ? "removing" : bar.state;
  const when = bar.from === null ? "" : ` ${period(bar.from, done ? bar.to : null, format)}`;
  const awaited = bar.plan && bar.from === null;
  const told = [bar.detail ? localTimes(bar.detail) : "", bar.plan ? `expected ${period(bar.plan.from, bar.plan.to, format)}` : "",
    used(bar) ? `window ${period(used(bar).from, used(bar).to, format)}` : ""].filter(Boolean).map((words) => `; ${words}`).join("");
  label(row, {
    who: bar.cluster,
    amount: awaited ? format(bar.plan.from) : bar.state === "updating" ? "" : bar.state === "updated" ? (done ? age((bar.to - bar.from) / 1000) : "updated") : bar.state === "not reached" ? "–" : bar.state,
    since: bar.state === "updating" ? bar.from : null,
    tone: awaited || bar.state === "updated" || bar.state === "not reached" ? "plain" : tone,
    words: localTimes(bar.detail),
    told: `${bar.cluster}: ${state}${when}${told}`,
  });
}

/** The maintenance window in which a cluster is expected to be upgraded, else the first. */
function used(bar) {
  return bar.open.find(({ from, to }) => bar.plan && from <= bar.plan.from && bar.plan.from < to) ?? bar.open[0];
}

/** Draw when a cluster may be upgraded, when it is expected to be, and what of that is done. */
function drawExpected(track, bar, style, axis) {
  const piece = (from, to, kind) => {
    const made = h("i", { class: kind });
    const left = axis.place(Math.max(from, axis.begin));
    made.style.left = percent(left);
    made.style.width = percent(Math.max(0, axis.place(Math.min(to, axis.last)) - left));
    return made;
  };
  const windows = bar.open.filter(({ from, to }) => from < axis.last && to > axis.begin);
  track.replaceChildren(
    ...windows.map(({ from, to }) => piece(from, to, "tl-window")),
    ...(bar.plan ? [piece(bar.plan.from, bar.plan.to, "tl-forecast")] : []),
    ...(bar.from === null ? [] : [piece(bar.from, bar.to, style)]),
  );
}

function drawMark(row, mark, axis, format) {
  const track = row.children[1];
  if (mark.from === null) track.replaceChildren();
  else stretch(track, mark.from, mark.over ? mark.to : Math.max(mark.to, mark.from), `tl-line ${mark.over ? "over" : "open"}`, axis);
  row.classList.add("tl-mark");
  row.classList.toggle("tl-faint", mark.from === null && !mark.over);
  const timed = !APPROVALS.includes(mark.kind);
  const length = mark.from !== null && mark.over ? age((mark.to - mark.from) / 1000) : "";
  const verb = mark.kind === "timed wait" ? "waited" : timed ? "opened" : "approved";
  const told = mark.over ? `${verb}${mark.from === null ? "" : ` ${period(mark.from, mark.to, format)}`}`
    : mark.from === null ? "not requested yet"
      : timed ? `until ${moment(mark.to)}` : `requested ${moment(mark.from)}`;
  label(row, {
    who: WAITS[mark.kind] ?? mark.kind,
    amount: mark.over ? (timed ? length : "approved") : mark.from === null ? "–" : timed ? `until ${format(mark.to)}` : "asked ",
    since: !mark.over && mark.from !== null && !timed ? mark.from : null,
    after: " ago",
    tone: mark.over || mark.from === null ? "plain" : "warn",
    told: `${mark.kind}: ${told}${mark.request ? `; request ${mark.request}` : ""}`,
  });
}

/** The bars that are folded, as one row. */
function drawRest(row, rest, axis) {
  drawMany(row.children[1], rest, axis);
  const states = listed(rest);
  label(row, { who: `and ${number(rest.length)} more`, amount: "", tone: "plain", words: states, told: `${number(rest.length)} more: ${states}` });
}

/** A band at rest as one row, with a button that unfolds it. */
function drawShort(row, band, axis, unfold) {
  const [name] = row.children;
  const button = name.firstElementChild ?? h("button", { type: "button", class: "tl-open", tabindex: -1, "aria-expanded": "false" });
  if (button.parentElement !== name) name.replaceChildren(button);
  name.removeAttribute("aria-hidden");
  button.onclick = unfold;
  row.onkeydown = (event) => { if (event.key === "Enter" && event.target === row) unfold(); };
  drawMany(row.children[1], band.bars, axis);
  const amount = band.state === "not reached" ? "–" : band.from !== null && band.to !== null ? age((band.to - band.from) / 1000) : band.state;
  label(row, { who: band.name, amount, tone: "plain", told: `${band.name}, ${count(band.bars.length, "cluster")}: ${band.state}`, named: button });
  row.classList.toggle("tl-faint", band.state === "not reached");
}

/** Draw where any of many bars was at work. */
function drawMany(track, rest, axis) {
  const stretches = merged(rest.filter((bar) => bar.from !== null).map((bar) => [axis.place(bar.from), axis.place(bar.to)])).slice(0, 50);
  track.replaceChildren(...stretches.map(([from, to]) => {
    const piece = h("i", { class: `tl-bar tl-many ${rest.every((bar) => bar.state === "updated") ? "good" : "calm"}` });
    piece.style.left = percent(from);
    piece.style.width = percent(to - from);
    return piece;
  }));
}
