/** The list of placements: each a link that selects it, with its picks and, when something is wrong, one sentence. */

import { flash, h, isNews, patchList, pill, say } from "./dom.js";
import { count, number } from "./format.js";
import { whyOf } from "./runs.js";
import { tone } from "./states.js";

const NAMED_CLUSTERS = 4; // more than these are summed up

/** `PickN 3 · picked 3 · 2 available · 1 on the old release`: what was asked for and what became of it. */
export function numbers(placement) {
  const wanted = placement.wanted === null || placement.wanted === undefined ? placement.type : `${placement.type} ${number(placement.wanted)}`;
  return `${wanted} · picked ${number(placement.picked)} · ${number(placement.available)} available${onOld(placement)}`;
}

/** On how many clusters an earlier release is available while they wait for the latest. */
function onOld({ availableOld }) {
  return availableOld ? ` · ${number(availableOld)} on the old release` : "";
}

function picks(placement) {
  const names = placement.clusters.map((c) => c.cluster);
  if (!names.length) return "no cluster";
  const rest = names.length - NAMED_CLUSTERS;
  return names.slice(0, NAMED_CLUSTERS).join(", ") + (rest > 0 ? ` and ${number(rest)} more` : "");
}

/** A count under its column; on a narrow screen its word stands before it. */
function amount(word, value, lacking) {
  return h("span", { class: `num${lacking ? " lacking" : ""}` }, h("span", { class: "key" }, `${word} `), value);
}

function content(placement, why) {
  const { wanted, picked, available } = placement;
  const open = wanted === null || wanted === undefined;
  return [
    h("span", { class: "row" },
      h("span", { class: "placement-name" },
        placement.namespace ? h("span", { class: "namespace" }, `${placement.namespace}/`) : null, placement.name),
      " ", amount("wanted", open ? "all" : number(wanted), false),
      " ", amount("picked", number(picked), !open && picked < wanted),
      " ", amount("available", number(available), available < picked),
      " ", pill(placement.state, tone(placement.state))),
    h("span", { class: "placement-picks" }, `${placement.type} · ${picks(placement)}${onOld(placement)}`),
    why ? h("span", { class: "why" }, why) : null,
  ].filter(Boolean);
}

/** The list panel: keeps what the viewer unfolded between updates. */
export class PlacementsView {
  constructor({ body, sub, firstRows }) {
    Object.assign(this, { body, sub, firstRows, all: false, items: null, runs: null, selected: "" });
    this.list = h("ul", { class: "placements", onkeydown: (event) => this.move(event) });
    this.more = h("button", { type: "button", class: "more", onclick: () => { this.all = !this.all; this.render(); } });
  }

  /** Show the placements, one of them selected, and why those are as they are that a run changes. */
  show(items, selected, runs) {
    this.items = items;
    this.runs = runs;
    this.selected = selected;
    this.render();
  }

  /** Arrow keys walk the list as well as Tab does. */
  move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    const links = [...this.list.querySelectorAll("a")];
    const next = links[links.indexOf(document.activeElement) + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
  }

  render() {
    const { items, body, sub } = this;
    if (!items) return;
    const kinds = new Set(items.map((p) => p.namespace).filter(Boolean)).size;
    say(sub, items.length ? `${number(items.length)} in the fleet${kinds ? `, ${count(kinds, "namespace")}` : ""}` : "");
    if (!items.length) {
      if (isNews(body, "empty")) {
        body.replaceChildren(h("p", { class: "quiet" }, "No placement yet. Add one with ",
          h("code", {}, "harbormaster apply -f placement.yaml"), "; it appears here by itself."));
      }
      return;
    }
    if (isNews(body, "list")) {
      const head = h("div", { class: "placements-head", "aria-hidden": true },
        ["", "wanted", "picked", "available", ""].map((title) => h("span", {}, title)));
      body.replaceChildren(head, h("div", { class: "placements-box" }, this.list), this.more);
    }
    const limit = this.firstRows();
    const cut = !this.all && items.length > limit;
    const shown = cut ? items.filter((p, index) => index < limit || p.ref === this.selected) : items;
    patchList(this.list, shown, (p) => p.ref,
      (p) => h("li", {}, h("a", { href: `#${p.ref}` })),
      (element, placement, isNew) => {
        const link = element.firstElementChild;
        if (placement.ref === this.selected) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
        const why = whyOf(placement, this.runs);
        const facts = [placement.type, placement.wanted, placement.picked, placement.available, placement.availableOld, placement.state, why, picks(placement)];
        if (!isNews(link, facts)) return;
        link.replaceChildren(...content(placement, why));
        if (!isNew) flash(link);
      });
    this.more.hidden = items.length <= limit;
    say(this.more, this.all ? `Show the first ${number(limit)} only` : `Show all ${number(items.length)} placements`);
    this.more.setAttribute("aria-expanded", String(this.all));
  }
}
