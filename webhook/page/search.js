/** Search over everything that the page has read, and the list of keyboard shortcuts: two dialogs, opened by a key or a button. */

import { href } from "./address.js";
import { h, patchList, say } from "./dom.js";
import { count, number } from "./format.js";
import { hasAll, terms } from "./selection.js";

const MOST = 40;

const VIEWS = [["Fleet", "fleet"], ["Placements", "placement"], ["Update runs", "runs"], ["Disruption budgets", "budgets"], ["Timeline", "timeline"], ["Reference", "reference"]];
const ROLLBACK = "roll back rollback rollout undo"; // what other tools call it

/** What can be found: `{ kind, name, note, to, also, words }`, in the order of its rank. */
export function entries({ clusters, placements, runs, budgets, reference }) {
  const made = [
    ...(runs ?? []).filter((one) => one.canUndo).map((one) => ({ kind: "action", name: `Roll back ${one.ref}`, note: `to snapshot ${one.undoTo}`, to: href("runs", one.ref), also: ROLLBACK })),
    ...VIEWS.map(([name, view]) => ({ kind: "view", name, note: "", to: href(view), also: view === "runs" ? ROLLBACK : "" })),
    ...(placements ?? []).map((one) => ({ kind: "placement", name: one.ref, note: one.state, to: href("placement", one.ref) })),
    ...(clusters ?? []).map((one) => ({ kind: "cluster", name: one.name, note: one.state, to: href("cluster", one.name) })),
    ...(runs ?? []).map((one) => ({ kind: "run", name: one.ref, note: one.state, to: href("runs", one.ref) })),
    ...(budgets?.pools ?? []).map((one) => ({ kind: "pool", name: one.pool, note: "", to: href("budgets", "", { q: one.pool }) })),
    ...(reference ?? []).map((one) => ({ kind: one.group, name: one.id, note: "", to: href("reference", encodeURIComponent(one.id)) })),
  ];
  return made.map((one) => ({ ...one, words: `${one.kind} ${one.name} ${one.note} ${one.also ?? ""}`.toLowerCase() }));
}

/** Whether a key is typed into a field, where it is text. */
const isTyping = (event) => event.target.closest?.("input, select, textarea, [contenteditable]") !== null;

/** The dialog with the field and what it finds. */
export class SearchView {
  /** `read()` returns what can be found, in the form that `entries` takes. `prepare()` is called before it opens. */
  constructor({ dialog, shortcuts, read, prepare, isReady }) {
    Object.assign(this, { dialog, shortcuts, read, prepare, isReady, found: [], place: 0 });
    this.field = h("input", {
      type: "search", class: "control", role: "combobox", "aria-label": "Search everything", "aria-expanded": "true", "aria-controls": "search-found", "aria-autocomplete": "list",
      placeholder: "cluster, placement, run, rule, state", autocomplete: "off", spellcheck: "false", oninput: () => { this.place = 0; this.render(); }, onkeydown: (event) => this.move(event),
    });
    this.list = h("ul", { class: "search-found", id: "search-found", role: "listbox", "aria-label": "Results", onclick: (event) => this.take(event.target.closest("[role=option]")?.dataset.to) });
    this.note = h("p", { class: "quiet", role: "status" });
    dialog.replaceChildren(this.field, this.list, this.note);
    for (const each of [dialog, shortcuts]) each.addEventListener("click", (event) => event.target === each && each.close());
    addEventListener("keydown", (event) => this.hear(event));
  }

  /** `/` and Ctrl-K open the search, `?` the list of shortcuts. */
  hear(event) {
    if (!this.isReady() || event.altKey) return;
    const isCommand = event.ctrlKey || event.metaKey;
    if (isCommand ? event.key.toLowerCase() !== "k" : isTyping(event) || !["/", "?"].includes(event.key)) return;
    event.preventDefault();
    if (event.key === "?") this.showShortcuts();
    else this.open();
  }

  open() {
    this.shortcuts.close();
    if (this.dialog.open) return;
    this.prepare();
    this.field.value = "";
    this.place = 0;
    this.render();
    this.dialog.showModal();
    this.field.focus();
  }

  showShortcuts() {
    if (!this.dialog.open && !this.shortcuts.open) this.shortcuts.showModal();
  }

  /** Arrow keys choose a result, Enter goes there. */
  move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      this.place = Math.min(Math.max(0, this.place + step), this.found.length - 1);
      this.render();
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.take(this.found[this.place]?.to);
    }
  }

  take(to) {
    if (!to) return;
    this.dialog.close();
    location.hash = to;
  }

  render() {
    const wanted = terms(this.field.value);
    const all = entries(this.read()).filter((one) => hasAll(one.words, wanted));
    this.found = all.slice(0, MOST);
    patchList(this.list, this.found, (one) => `${one.kind} ${one.name}`,
      (one) => h("li", { role: "option", "data-to": one.to }, h("span", { class: "detail" }, one.kind), " ", h("b", {}, one.name), " ", h("span", { class: "detail" }, one.note)),
      (element, one) => {
        element.id = `found-${this.found.indexOf(one)}`;
        element.setAttribute("aria-selected", String(one === this.found[this.place]));
      });
    const chosen = this.list.children[this.place];
    if (chosen) this.field.setAttribute("aria-activedescendant", chosen.id);
    else this.field.removeAttribute("aria-activedescendant");
    chosen?.scrollIntoView({ block: "nearest" });
    say(this.note, all.length > MOST ? `the first ${number(MOST)} of ${number(all.length)}` : all.length ? count(all.length, "result") : "Nothing matches.");
  }
}
