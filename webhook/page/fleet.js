/** The fleet as a table, searched, filtered, sorted and grouped; on a narrow screen each row becomes a card (style.css). */

import { address, change, href } from "./address.js";
import { retime, serverNow, ticking } from "./clock.js";
import { flash, h, isNews, patchList, say } from "./dom.js";
import { byName, bytes, cores, count, label, matches, number, quantity, taint, tally } from "./format.js";
import { coresOf } from "./map.js";
import { besideRow, pillInRow, pillOf } from "./reference.js";
import { grouped, hasAll, labelKeys, labelPairs, labelTest, sorted, terms } from "./selection.js";
import { call } from "./server.js";
import { CLUSTER_STATES } from "./states.js";
import { Toolbar, counted } from "./toolbar.js";
import { DAY, clock, localTimes, moment } from "./zone.js";

const REGION_KEYS = ["topology.kubernetes.io/region", "region", "fleet.azure.com/location", "location"];
const CORE_COST = "kubernetes.azure.com/per-cpu-core-cost";
const SHOWN_LABELS = 2; // the others are one click away
const TELLING = ["env", "tier", "environment", "stage", "team"]; // what people tell clusters apart by
const MOST_GROUPS = 200;
const NO_VALUE = "-"; // in the address, of the group without the label

const COLUMNS = [
  { key: "name", title: "Cluster" },
  { key: "state", title: "State" },
  { key: "region", title: "Region" },
  { key: "labels", title: "Labels, taints" },
  { key: "nodes", title: "Nodes", number: true },
  { key: "cpu", title: "CPU free" },
  { key: "memory", title: "Memory free" },
  { key: "cost", title: "Cost / core", number: true },
  { key: "window", title: "Window" },
  { key: "heartbeat", title: "Heartbeat", number: true },
  { key: "placements", title: "Placements", number: true },
];

/** What a column is sorted by. */
const SORT_KEYS = {
  name: (c) => c.name,
  state: (c) => CLUSTER_STATES.indexOf(c.state),
  region: (c) => regionOf(c)[1],
  nodes: (c) => c.nodes,
  cpu: (c) => c.cpu?.ratio,
  memory: (c) => c.memory?.ratio,
  cost: (c) => quantity(c.properties?.[CORE_COST]?.value),
  heartbeat: (c) => -Date.parse(c.lastHeartbeat ?? ""), // an age
  placements: (c) => (c.placements ?? []).length,
};

/** The orders on offer: each column that sorts, both ways. Without a choice, a list that is not cut is by name. */
function orders(isCut) {
  const columns = COLUMNS.filter(({ key }) => SORT_KEYS[key]).map(({ key, title }) => [key, key === "name" ? "name" : title]);
  const both = columns.flatMap(([key, title]) => [[key, title], [`-${key}`, `${title}, descending`]]);
  return isCut ? both : both.filter(([key]) => key !== "name");
}

/** The label that clusters are mapped by where the reader has chosen none. */
export function regionKey(clusters) {
  return REGION_KEYS.find((key) => clusters.some((cluster) => key in (cluster.labels ?? {}))) ?? labelKeys(clusters).find(([, values]) => values > 1)?.[0] ?? "";
}

/** The label key that says where a cluster is, and its value. */
export function regionOf(cluster) {
  const key = REGION_KEYS.find((name) => name in (cluster.labels ?? {}));
  return key ? [key, cluster.labels[key]] : ["", ""];
}

/** Where a label stands among the others: telling ones first, those of systems last. */
function telling(key) {
  const place = TELLING.indexOf(key);
  if (place >= 0) return place;
  return key.includes("/") ? TELLING.length + 1 : TELLING.length;
}

function words(cluster) {
  const labels = Object.entries(cluster.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  return [cluster.name, cluster.state, ...labels, ...(cluster.taints ?? []).map(taint)].join(" ").toLowerCase();
}

/** A bar for the free share of a resource, with its numbers. */
function free(resource, name, format, both) {
  if (!resource) return h("span", { class: "none" }, "–");
  const shown = both ? `${format(resource.available)} / ${format(resource.allocatable)}` : format(resource.available);
  const fill = h("i");
  fill.style.width = `${Math.min(1, Math.max(0, Number(resource.ratio) || 0)) * 100}%`;
  const title = `${format(resource.available)} of ${format(resource.allocatable)} ${name} free`;
  return h("span", { class: "free", title }, h("span", { class: "meter", "aria-hidden": true }, fill), h("span", { class: "amount" }, shown));
}

/** The minor version of a Kubernetes version: `1.31` of `1.31.2`. */
const minor = (version) => version.split(".").slice(0, 2).join(".");

/** The state in a pill; of a cluster that is being upgraded, from which version to which. */
export function statePill(cluster, make = pillOf) {
  const { upgrade } = cluster.upkeep ?? {};
  if (cluster.state !== "eligible" || upgrade?.state !== "Running") return make(cluster.state);
  const { fromVersion: from, toVersion: to } = upgrade;
  const [old, next] = from && to && minor(from) !== minor(to) ? [minor(from), minor(to)] : [from, to];
  return make("upgrading", old && next && old !== next ? `upgrading ${old}→${next}` : "upgrading");
}

/** What a cluster runs, and which upgrade is concerned with it. */
function upkeep(kept) {
  if (!kept) return [];
  const { version, onHold, upgrade } = kept;
  const words = [version ? `Kubernetes ${version}` : "", onHold ? "upgrades on hold" : ""].filter(Boolean).join(" · ");
  const state = { Running: "being upgraded by", Pending: "waits in", Failed: "failed in" }[upgrade?.state] ?? "";
  return [
    words ? h("span", { class: "detail" }, words) : null,
    upgrade ? h("span", { class: "detail", title: localTimes(upgrade.message) }, `${state} `, h("a", { href: href("runs", `cuprun/${upgrade.run}`) }, upgrade.run)) : null,
  ].filter(Boolean);
}

/** `open until 19:00`, `opens Sat 28 Nov 22:00`: with the day where it is not within 24 hours. */
function windowWords({ windowOpen: open, windowUntil: until }) {
  if (open === undefined) return "";
  const when = until ? Date.parse(until) : null;
  if (when === null) return open ? "open" : "closed";
  const text = when - serverNow() < DAY ? clock(when) : moment(when);
  return open ? `open until ${text}` : `opens ${text}`;
}

const CELLS = {
  name: (c) => [h("a", { class: "cluster-name", href: href("cluster", c.name), tabindex: -1 }, c.name)],
  state: (c) => [h("span", { class: "apart" }, statePill(c, pillInRow), " ", c.stateDetail ? h("span", { class: "detail" }, localTimes(c.stateDetail)) : null, ...upkeep(c.upkeep))],
  region: (c) => [regionOf(c)[1] || h("span", { class: "none" }, "–")],
  labels: (c) => {
    const [region] = regionOf(c);
    const labels = Object.entries(c.labels ?? {}).filter(([key]) => key !== region).sort(([a], [b]) => telling(a) - telling(b));
    const taints = c.taints ?? [];
    if (!labels.length && !taints.length) return [h("span", { class: "none" }, "–")];
    const chips = (some) => some.flatMap(([key, value]) => [h("span", { class: "label", title: `${key}=${value}` }, label(key, value)), " "]);
    const rest = labels.slice(SHOWN_LABELS);
    return [h("span", { class: "apart" },
      chips(labels.slice(0, SHOWN_LABELS)),
      taints.flatMap((one) => [h("span", { class: "taint", title: `taint ${one.key}=${one.value ?? ""}:${one.effect}` }, taint(one)), " "]),
      rest.length ? h("details", { class: "more-labels" }, h("summary", {}, `+${rest.length} ${rest.length === 1 ? "label" : "labels"}`), chips(rest)) : null)];
  },
  nodes: (c) => [c.nodes === null || c.nodes === undefined ? h("span", { class: "none" }, "–") : number(c.nodes)],
  cpu: (c) => [free(c.cpu, "cores", cores, true)],
  memory: (c) => [free(c.memory, "memory", bytes, false)],
  cost: (c) => [c.properties?.[CORE_COST]?.value ?? h("span", { class: "none" }, "–")],
  window: (c) => {
    const words = windowWords(c.upkeep ?? {});
    return [words ? h("span", { title: `maintenance windows: ${words}` }, words) : h("span", { class: "none" }, "–")];
  },
  placements: (c) => [h("span", { title: (c.placements ?? []).join(", ") }, number((c.placements ?? []).length))],
};

function makeRow() {
  return h("tr", { role: "row" }, COLUMNS.map((column, index) =>
    index === 0
      ? h("th", { role: "rowheader", scope: "row", class: "c-name" })
      : h("td", { role: "cell", class: `c-${column.key}${column.number ? " num" : ""}`, "data-label": column.title })));
}

function updateRow(row, cluster, isNew) {
  COLUMNS.forEach((column, index) => {
    const cell = row.children[index];
    if (column.key === "heartbeat") return updateHeartbeat(cell, Date.parse(cluster.lastHeartbeat ?? ""));
    if (isNews(cell, facts(cluster, column.key))) cell.replaceChildren(...CELLS[column.key](cluster).filter(Boolean));
  });
  if (isNews(row, [cluster.state, cluster.labels, cluster.taints, cluster.placements, cluster.nodes]) && !isNew) flash(row);
}

function facts(cluster, key) {
  if (key === "region" || key === "labels") return [cluster.labels, cluster.taints];
  if (key === "state") return [cluster.state, cluster.stateDetail, cluster.upkeep];
  if (key === "window") return [cluster.upkeep?.windowOpen, cluster.upkeep?.windowUntil];
  if (key === "cost") return cluster.properties?.[CORE_COST]?.value;
  return cluster[key];
}

function updateHeartbeat(cell, instant) {
  const shown = cell.firstElementChild;
  if (!Number.isNaN(instant) && shown?.localName === "time") retime(shown, instant);
  else cell.replaceChildren(Number.isNaN(instant) ? h("span", { class: "none" }, "–") : ticking(instant));
}

/** Bytes of free and whole memory of clusters that report them. */
function memoryOf(clusters) {
  const sum = (key) => clusters.reduce((total, c) => total + (quantity(c.memory?.[key]) ?? 0), 0);
  return { free: sum("available"), whole: sum("allocatable") };
}

function summed({ free: amount, whole }, name, words, both) {
  return whole ? free({ available: String(amount), allocatable: String(whole), ratio: amount / whole }, name, words, both) : h("span", { class: "none" }, "–");
}

/** The cells of a row that sums up a group; those between that have no sum stay empty. */
const SUMS = {
  state: (clusters) => tally(clusters, (c) => c.state, CLUSTER_STATES).map(([state, n]) => pillInRow(state, `${number(n)} ${state}`)),
  nodes: (clusters) => [number(clusters.reduce((sum, c) => sum + (c.nodes ?? 0), 0))],
  cpu: (clusters) => [summed(coresOf(clusters), "cores", cores, true)],
  memory: (clusters) => [summed(memoryOf(clusters), "memory", bytes, false)],
  placements: (clusters) => [number(clusters.reduce((sum, c) => sum + (c.placements ?? []).length, 0))],
};

function makeGroup() {
  const button = h("button", { type: "button", class: "group-toggle", onclick: () => change({ open: button.getAttribute("aria-expanded") === "true" ? "" : button.dataset.value }) });
  const cells = COLUMNS.slice(1).map((column) => h("td", { role: "cell", class: `c-${column.key}${column.number ? " num" : ""}`, "data-label": column.title }));
  return h("tr", { role: "row", class: "group-row" }, h("th", { role: "rowheader", scope: "row", class: "c-name" }, button), cells);
}

function updateGroup(row, { value, clusters, isOpen }) {
  const button = row.querySelector("button");
  button.dataset.value = value || NO_VALUE;
  button.setAttribute("aria-expanded", String(isOpen));
  if (isNews(button, [value, clusters.length])) button.replaceChildren(value || "without", " ", h("span", { class: "detail" }, count(clusters.length, "cluster")));
  COLUMNS.slice(1).forEach(({ key }, index) => {
    const cell = row.children[index + 1];
    if (SUMS[key] && isNews(cell, clusters.map((c) => c[key]))) cell.replaceChildren(...SUMS[key](clusters));
  });
}

/** The fleet panel: keeps what the viewer unfolded between updates; the rest of what they chose is in the address. */
export class FleetView {
  constructor({ body, sub, firstRows }) {
    Object.assign(this, { body, sub, firstRows, all: false, clusters: null });
    this.toolbar = new Toolbar("Fleet", [
      { key: "q", kind: "search", title: "Search clusters", any: "name, state, label, taint" },
      { key: "state", kind: "select", title: "State", any: "any" },
      { key: "label", kind: "pairs", title: "Label", any: "env=prod" },
      { key: "group", kind: "select", title: "Group by", any: "nothing" },
      { key: "sort", kind: "select", title: "Sort by", any: "name", narrowOnly: true }, // elsewhere the columns do that
    ]);
    this.heads = new Map();
    const head = COLUMNS.map((column) => h("th", { role: "columnheader", scope: "col", class: `c-${column.key}${column.number ? " num" : ""}` }, this.sorter(column)));
    this.table = h("table", { role: "table", class: "fleet", "aria-labelledby": "fleet-title", onkeydown: (event) => this.walk(event), onfocusin: () => this.stop() },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head)), this.rows = h("tbody", { role: "rowgroup" }));
    this.more = h("button", { type: "button", class: "more", onclick: () => { this.all = !this.all; this.render(); } });
    this.note = h("p", { class: "quiet", hidden: true });
  }

  /** The head of a column: pressing it sorts by it, pressing it again the other way round. */
  sorter({ key, title }) {
    if (!SORT_KEYS[key]) return title;
    const button = h("button", { type: "button", class: "sorter", onclick: () => {
      const now = address().query.get("sort") ?? "";
      change({ sort: now === key ? `-${key}` : now === `-${key}` ? "" : key });
    } }, title);
    this.heads.set(key, button);
    return button;
  }

  showOrder(sort) {
    for (const [key, button] of this.heads) {
      const order = sort === key ? "ascending" : sort === `-${key}` ? "descending" : "";
      const head = button.parentElement;
      if (order) head.setAttribute("aria-sort", order);
      else head.removeAttribute("aria-sort");
    }
  }

  /** Show member clusters, by name. */
  show(clusters) {
    this.clusters = [...clusters].sort((a, b) => byName(a.name, b.name));
    this.render();
  }

  /** Arrow keys walk the names of the clusters: all of them are one stop of the Tab key. */
  walk(event) {
    if (besideRow(event, event.target.closest("tr"))) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey || !event.target.matches(".cluster-name")) return;
    const names = [...this.table.querySelectorAll(".cluster-name")];
    const next = names[names.indexOf(event.target) + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
  }

  /** Make the name that has the focus, else the first, the stop of the Tab key. */
  stop() {
    const names = [...this.table.querySelectorAll(".cluster-name")];
    const here = names.find((name) => name === document.activeElement) ?? names.find((name) => name.tabIndex === 0) ?? names[0];
    for (const name of names) name.tabIndex = name === here ? 0 : -1;
  }

  /** The clusters that the toolbar and the map leave. */
  chosen({ q, state, label: wish }) {
    const wanted = terms(q);
    const fits = labelTest(wish);
    return this.clusters.filter((c) => (!state || c.state === state) && fits(c.labels) && (!wanted.length || hasAll(words(c), wanted)));
  }

  render() {
    const { clusters, body, sub } = this;
    if (!clusters) return;
    const regions = new Set(clusters.map((c) => regionOf(c)[1]).filter(Boolean));
    const size = clusters.length ? `${count(clusters.length, "cluster")}${regions.size ? `, ${count(regions.size, "region")}` : ""}` : "";
    if (!clusters.length) {
      say(sub, "");
      if (isNews(body, "empty")) {
        body.replaceChildren(h("p", { class: "quiet nothing" }, "No member cluster has joined yet. Add one with ",
          h("code", {}, call("apply -f member.yaml")), ". It then appears here automatically."));
      }
      return;
    }
    if (isNews(body, "table")) body.replaceChildren(this.toolbar.element, h("div", { class: "scroller" }, this.table), this.note, this.more);
    const values = this.toolbar.read();
    const sort = address().query.get("sort") ?? "";
    this.toolbar.offer("state", counted(tally(clusters, (c) => c.state, CLUSTER_STATES)));
    this.toolbar.offer("label", labelPairs(clusters).map((pair) => [pair, ""]));
    const found = this.chosen(values);
    const isCut = !values.group && !this.all && found.length > this.firstRows();
    this.toolbar.offer("sort", orders(isCut), isCut ? "not eligible first" : "name");
    this.toolbar.offer("group", labelKeys(clusters).map(([key, number_]) => [key, `${key} (${number_})`]));
    this.toolbar.read(); // what is chosen may only now be on offer
    this.showOrder(sort);
    const part = values.group ? this.renderGroups(found, values.group, sort) : this.renderRows(found, sort, isCut);
    this.stop();
    this.table.hidden = !found.length;
    this.note.hidden = found.length > 0;
    say(this.note, "No cluster matches.");
    const isFiltered = values.q || values.state || values.label;
    say(sub, `${size}${isFiltered ? `; ${matches(found.length)}` : ""}${part}`);
  }

  renderRows(found, sort, cut) {
    const limit = this.firstRows();
    // A cut list in no other order begins with the clusters that need a look.
    const ordered = sort ? sorted(found, sort, SORT_KEYS) : cut ? [...found].sort((a, b) => a.eligible - b.eligible) : found;
    const shown = cut ? ordered.slice(0, limit) : ordered;
    patchList(this.rows, shown, (c) => c.name, makeRow, updateRow);
    this.more.hidden = found.length <= limit;
    say(this.more, this.all ? `Show only the first ${number(limit)}` : `Show all ${number(found.length)} clusters`);
    this.more.setAttribute("aria-expanded", String(this.all));
    return cut ? `; ${number(shown.length)} shown${sort ? "" : ", those not eligible first"}` : "";
  }

  /** A row of sums per group, and below it the clusters of the one that is open. */
  renderGroups(found, key, sort) {
    const open = address().query.get("open") ?? "";
    const groups = grouped(found, (c) => c.labels?.[key]);
    const entries = groups.slice(0, MOST_GROUPS).flatMap(([value, clusters]) => {
      const isOpen = open === (value || NO_VALUE);
      return [{ value, clusters, isOpen }, ...(isOpen ? sorted(clusters, sort, SORT_KEYS) : [])];
    });
    patchList(this.rows, entries, (one) => (one.clusters ? `=${one.value}` : one.name),
      (one) => (one.clusters ? makeGroup() : makeRow()),
      (row, one, isNew) => (one.clusters ? updateGroup(row, one) : updateRow(row, one, isNew)));
    this.more.hidden = true;
    return `; ${count(groups.length, "group")} by ${key}${groups.length > MOST_GROUPS ? `, the first ${number(MOST_GROUPS)} shown` : ""}`;
  }
}
