/** The terms that the other views link to: rules of admission, states, verdicts and reasons, each with its paragraph. */

import { address, href } from "./address.js";
import { ask } from "./api.js";
import { h, isNews, patchList, say } from "./dom.js";
import { number, tally } from "./format.js";
import { prose } from "./prose.js";
import { hasAll, terms } from "./selection.js";
import { tone } from "./states.js";
import { Toolbar, counted } from "./toolbar.js";

const PATH = "/ui/reference.json";
const FIRST = 30;
const GROUPS = ["rule", "state", "verdict", "reason"];

/** A link to the paragraph of a term. */
export function refer(id, text = id) {
  return h("a", { class: "term", href: href("reference", encodeURIComponent(id)), title: `What ${id} means` }, text);
}

/** A state as a pill that links to its paragraph; `text` where the pill says more than the state. */
export function pillOf(state, text = state, colour = tone(state)) {
  return h("a", { class: `pill ${colour}`, href: href("reference", encodeURIComponent(state)), title: `What ${state} means` }, text);
}

/** The same in a row of a list: no stop of the Tab key of its own, the arrow keys lead there from the link of the row. */
export function pillInRow(state, text = state, colour = tone(state)) {
  const link = pillOf(state, text, colour);
  link.tabIndex = -1;
  return link;
}

/** Let → lead from the link of a row to its states, and ← back. Whether it has. */
export function besideRow(event, row) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step || !row || event.altKey || event.ctrlKey || event.metaKey) return false;
  const stops = [...row.querySelectorAll(".cluster-name, .row-link, a.pill")];
  const next = stops[stops.indexOf(document.activeElement) + step];
  if (!next) return false;
  event.preventDefault();
  next.focus();
  return true;
}

/** A table of Markdown: a row a line, the second of which separates the head. */
function table(text) {
  const [head, , ...rows] = text.split("\n").map((line) => line.split("|").slice(1, -1).map((cell) => prose(cell.trim())));
  return h("table", { class: "term-table" },
    h("thead", {}, h("tr", {}, head.map((cell) => h("th", { scope: "col" }, cell)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell))))));
}

const ITEM = /^(- |\d+\. )/;

/** A block of a text: an example, a table, a list, or a paragraph. */
function block(text) {
  if (text.startsWith("    ")) return h("pre", { class: "yaml", tabindex: 0 }, text.replace(/^ {4}/gm, ""));
  if (text.startsWith("|")) return table(text);
  if (!ITEM.test(text)) return h("p", {}, ...prose(text));
  return h(text.startsWith("-") ? "ul" : "ol", { class: "mistakes" }, text.split(/\n(?=- |\d+\. )/).map((item) => h("li", {}, ...prose(item.replace(ITEM, "")))));
}

function content({ id, group, text, facts }) {
  return [
    h("p", { class: "term-head" }, h("b", {}, id), " ", h("span", { class: "detail" }, group)),
    ...text.split(/\n{2,}/).map(block),
    facts ? h("p", { class: "detail" }, Object.entries(facts).map(([name, value]) => `${name}: ${value}`).join(" · ")) : null,
  ].filter(Boolean);
}

const words = (term) => `${term.id} ${term.group} ${term.text}`.toLowerCase();

/** The panel. */
export class ReferenceView {
  constructor({ body, sub }) {
    Object.assign(this, { body, sub, items: null, shown: FIRST });
    this.toolbar = new Toolbar("Reference", [
      { key: "q", kind: "search", title: "Search the reference", any: "rule, state, reason, text" },
      { key: "group", kind: "select", title: "Group", any: "all" },
    ]);
    this.named = h("div", { class: "term-named", hidden: true });
    this.list = h("ol", { class: "log" });
    this.note = h("p", { class: "quiet", hidden: true }, "No term matches.");
    this.more = h("button", { type: "button", class: "more", onclick: () => { this.shown += FIRST; this.render(); } });
  }

  /** Read the terms, once. */
  async load() {
    this.items ??= (await ask(PATH)).document;
  }

  /** Read the terms, and show them. */
  async read() {
    await this.load();
    this.render();
  }

  render() {
    const { items } = this;
    if (!items) return;
    if (isNews(this.body, "list")) this.body.replaceChildren(this.named, this.toolbar.element, this.list, this.note, this.more);
    this.toolbar.offer("group", counted(tally(items, (one) => one.group, GROUPS)));
    this.showNamed(address().path);
    const { q, group } = this.toolbar.read();
    const wanted = terms(q);
    const found = items.filter((one) => (!group || one.group === group) && hasAll(words(one), wanted));
    patchList(this.list, found.slice(0, this.shown), (one) => `${one.group} ${one.id}`, () => h("li", {}), (element, one) => {
      if (isNews(element, one.id)) element.replaceChildren(...content(one));
    });
    this.note.hidden = found.length > 0;
    this.more.hidden = found.length <= this.shown;
    say(this.more, `Show ${number(Math.min(FIRST, found.length - this.shown))} more of ${number(found.length)}`);
    say(this.sub, found.length < items.length ? `${number(found.length)} of ${number(items.length)} terms match` : `${number(items.length)} terms`);
  }

  /** Show the terms of the id in the address before the others; a state and a verdict may share a word. */
  showNamed(id) {
    this.named.hidden = !id;
    if (!id || !isNews(this.named, id)) return;
    const found = this.items.filter((one) => one.id === id || (one.group === "reason" && one.id.endsWith(`: ${id}`)));
    this.named.replaceChildren(...(found.length ? found.map((one) => h("div", { class: "callout" }, content(one))) : [h("p", { class: "callout warn" }, `${id} is not in this reference.`)]));
  }
}
