/** The list of placements: each a link that selects it, with its picks and, when something is wrong, one sentence. */

import { address, beside, change } from "./address.js";
import { flash, h, isNews, patchList, reveal, say } from "./dom.js";
import { count, matches, number, tally } from "./format.js";
import { besideRow, pillInRow } from "./reference.js";
import { currentRun, whyOf } from "./runs.js";
import { grouped, hasAll, labelKeys, labelPairs, labelTest, sorted, terms } from "./selection.js";
import { call } from "./server.js";
import { PLACEMENT_STATES, tone } from "./states.js";
import { Toolbar, counted } from "./toolbar.js";

const BY_NAMESPACE = "namespace"; // the others that are grouped by are labels
const ORDERS = [["name", "name"], ["state", "state, worst first"], ["-wanted", "most requested"], ["-missing", "most missing"], ["-decided", "latest decision"]];

const SORT_KEYS = {
  name: (p) => `${p.namespace}/${p.name}`,
  state: (p) => -PLACEMENT_STATES.indexOf(p.state),
  wanted: (p) => p.wanted ?? p.picked,
  missing: (p) => (p.wanted ?? p.picked) - p.available,
  decided: (p) => Date.parse(p.decidedAt ?? ""),
};

const CLUSTER_SCOPED = "cluster-scoped";
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

/** Whether removals wait for confirmation while the state of the placement is about something else. */
function isPendingBeside({ removalPendingSince, state }) {
  return Boolean(removalPendingSince) && state !== "removal pending";
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
  const isAtWork = tone(placement.state) === "busy"; // nothing is wrong until its progress deadline, or a failure
  return [
    h("span", { class: "row" },
      h("span", { class: "placement-name" },
        placement.namespace ? h("span", { class: "namespace" }, `${placement.namespace}/`) : null, placement.name),
      " ", amount("wanted", open ? "all" : number(wanted), false),
      " ", amount("picked", number(picked), !open && picked < wanted),
      " ", amount("available", number(available), available < picked && !isAtWork),
      " ", h("span", { class: "unseen" }, stateWords(placement))),
    h("span", { class: "placement-picks" }, `${placement.type} · ${picks(placement)}${onOld(placement)}`),
    why ? h("span", { class: isAtWork ? "why at-work" : "why" }, why) : null,
  ].filter(Boolean);
}

/** The states of a placement, of which the second is not that of its rollout. */
function statesOf(placement) {
  return isPendingBeside(placement) ? [placement.state, "removal pending"] : [placement.state];
}

const stateWords = (placement) => statesOf(placement).join(", ");

/** A line that sums up a group; pressing it shows or hides its placements. */
function makeGroup() {
  const button = h("button", { type: "button", class: "group-toggle", onclick: () => change({ open: button.getAttribute("aria-expanded") === "true" ? "" : button.dataset.value }) });
  return h("li", { class: "group-row" }, button);
}

function updateGroup(element, { value, items, isOpen }) {
  const button = element.firstElementChild;
  button.dataset.value = value || NO_VALUE;
  button.setAttribute("aria-expanded", String(isOpen));
  const sum = (of) => items.reduce((total, p) => total + of(p), 0);
  const facts = [value, items.length, sum((p) => p.picked), sum((p) => p.available), items.filter((p) => !p.satisfied).length];
  if (!isNews(button, facts)) return;
  const [, , picked, available, unmet] = facts;
  button.replaceChildren(value || "without", " ", h("span", { class: "detail" },
    `${count(items.length, "placement")} · picked ${number(picked)} · ${number(available)} available`, unmet ? ` · ${number(unmet)} not satisfied` : ""));
}

const words = (p) => [p.namespace, p.name, p.ref, p.type, p.state, p.removalPendingSince ? "removal pending" : "", p.why, ...p.clusters.map((c) => c.cluster), ...Object.entries(p.labels ?? {}).map(([key, value]) => `${key}=${value}`)].join(" ").toLowerCase();

const NO_VALUE = "-"; // in the address, of the group without the label

/** The list panel: keeps what the viewer unfolded between updates; the rest of what they chose is in the address. */
export class PlacementsView {
  constructor({ body, sub, firstRows }) {
    Object.assign(this, { body, sub, firstRows, all: false, items: null, runs: null, selected: "" });
    this.toolbar = new Toolbar("Placements", [
      { key: "q", kind: "search", title: "Search placements", any: "name, cluster, state" },
      { key: "state", kind: "select", title: "State", any: "any" },
      { key: "ns", kind: "select", title: "Namespace", any: "any" },
      { key: "label", kind: "pairs", title: "Label", any: "team=web" },
      { key: "sort", kind: "select", title: "Sort by", any: "reference" },
      { key: "group", kind: "select", title: "Group by", any: "nothing" },
    ]);
    this.toolbar.offer("sort", ORDERS);
    this.list = h("ul", { class: "placements", onkeydown: (event) => this.move(event) });
    this.note = h("p", { class: "quiet", hidden: true }, "No placement matches.");
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
    if (besideRow(event, event.target.closest("li"))) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    const links = [...this.list.querySelectorAll(".row-link, button")];
    const next = links[links.indexOf(document.activeElement) + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
  }

  /** Those of some placements that the filter in the address leaves, in its order. */
  matching(items) {
    const { q, state, ns, label, sort } = this.toolbar.read();
    const wanted = terms(q);
    const fits = labelTest(label);
    const found = items.filter((p) => (!state || p.state === state) && (!ns || (p.namespace || CLUSTER_SCOPED) === ns) && fits(p.labels) && (!wanted.length || hasAll(words(p), wanted)));
    return sorted(found, sort, SORT_KEYS);
  }

  render() {
    const { items, body, sub } = this;
    if (!items) return;
    const kinds = new Set(items.map((p) => p.namespace).filter(Boolean)).size;
    const size = `${number(items.length)} in the fleet${kinds ? `, ${count(kinds, "namespace")}` : ""}`;
    if (!items.length) {
      say(sub, "");
      if (isNews(body, "empty")) {
        body.replaceChildren(h("p", { class: "quiet nothing" }, "No placement yet. Add one with ",
          h("code", {}, call("apply -f placement.yaml")), ". It then appears here automatically."));
      }
      return;
    }
    if (isNews(body, "list")) {
      const head = h("div", { class: "placements-head", "aria-hidden": true },
        ["", "wanted", "picked", "available", ""].map((title) => h("span", {}, title)));
      body.replaceChildren(this.toolbar.element, head, h("div", { class: "placements-box" }, this.list), this.note, this.more);
    }
    this.offer(items);
    const values = this.toolbar.read();
    const found = this.matching(items);
    const limit = this.firstRows();
    const cut = !values.group && !this.all && found.length > limit;
    const shown = values.group ? this.inGroups(found, values.group) : cut ? found.filter((p, index) => index < limit || p.ref === this.selected) : found;
    patchList(this.list, shown, (one) => (one.items ? `=${one.value}` : one.ref),
      (one) => (one.items ? makeGroup() : h("li", {}, h("a", { class: "row-link" }), h("span", { class: "row-states" }))),
      (element, one, isNew) => (one.items ? updateGroup(element, one) : this.update(element, one, isNew)));
    this.note.hidden = found.length > 0;
    this.more.hidden = Boolean(values.group) || found.length <= limit;
    say(this.more, this.all ? `Show only the first ${number(limit)}` : `Show all ${number(found.length)} placements`);
    this.more.setAttribute("aria-expanded", String(this.all));
    say(sub, found.length < items.length ? `${size}; ${matches(found.length)}` : size);
    reveal(this.list); // once the parts above and below the list have their heights
  }

  offer(items) {
    this.toolbar.offer("state", counted(tally(items, (p) => p.state, PLACEMENT_STATES)));
    this.toolbar.offer("ns", counted(tally(items, (p) => p.namespace || CLUSTER_SCOPED, [CLUSTER_SCOPED])));
    this.toolbar.offer("label", labelPairs(items).map((pair) => [pair, ""]));
    this.toolbar.offer("group", [[BY_NAMESPACE, "namespace"], ["state", "state"], ...labelKeys(items).map(([key, amount_]) => [`label:${key}`, `${key} (${amount_})`])]);
  }

  /** A line per group, and below it the placements of the one that is open, and the selected one. */
  inGroups(found, group) {
    const open = address().query.get("open") ?? "";
    const valueOf = group === BY_NAMESPACE ? (p) => p.namespace || CLUSTER_SCOPED : group === "state" ? (p) => p.state : (p) => p.labels?.[group.replace(/^label:/, "")];
    return grouped(found, valueOf).flatMap(([value, items]) => {
      const isOpen = open === (value || NO_VALUE);
      return [{ value, items, isOpen }, ...(isOpen ? items : items.filter((p) => p.ref === this.selected))];
    });
  }

  update(element, placement, isNew) {
    const [link, states] = element.children;
    link.setAttribute("href", beside("placement", placement.ref));
    if (placement.ref === this.selected) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
    const why = whyOf(placement, currentRun(placement, this.runs));
    const facts = [placement.type, placement.wanted, placement.picked, placement.available, placement.availableOld, placement.state, isPendingBeside(placement), why, picks(placement)];
    if (!isNews(link, facts)) return;
    link.replaceChildren(...content(placement, why));
    if (isNews(states, statesOf(placement))) states.replaceChildren(...statesOf(placement).map((state) => pillInRow(state)));
    if (!isNew) flash(link);
  }
}
