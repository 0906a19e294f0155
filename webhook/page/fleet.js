/** The fleet as a table; on a narrow screen each row becomes a card (style.css). */

import { instantOf, retime, serverNow, ticking } from "./clock.js";
import { flash, h, isNews, patchList, pill, say } from "./dom.js";
import { bytes, cores, count, label, number, taint } from "./format.js";
import { tone } from "./states.js";
import { DAY, clock, localTimes, moment } from "./zone.js";

const REGION_KEYS = ["topology.kubernetes.io/region", "region", "fleet.azure.com/location", "location"];
const CORE_COST = "kubernetes.azure.com/per-cpu-core-cost";
const SHOWN_LABELS = 2; // the others are one click away
const TELLING = ["env", "tier", "environment", "stage", "team"]; // what people tell clusters apart by
const FILTER_FROM = 16; // a smaller fleet is seen at a glance

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
  const title = `${resource.available} of ${resource.allocatable} ${name} free`;
  return h("span", { class: "free", title }, h("span", { class: "meter", "aria-hidden": true }, fill), h("span", { class: "amount" }, shown));
}

/** The minor version of a Kubernetes version: `1.31` of `1.31.2`. */
const minor = (version) => version.split(".").slice(0, 2).join(".");

/** The state in a pill; of a cluster that is being upgraded, from which version to which. */
export function statePill(cluster) {
  const { upgrade } = cluster.upkeep ?? {};
  if (cluster.state !== "eligible" || upgrade?.state !== "Running") return pill(cluster.state, tone(cluster.state));
  const { fromVersion: from, toVersion: to } = upgrade;
  const [old, next] = from && to && minor(from) !== minor(to) ? [minor(from), minor(to)] : [from, to];
  return pill(old && next && old !== next ? `upgrading ${old}→${next}` : "upgrading", "busy");
}

/** What a cluster runs, and which upgrade is concerned with it. */
function upkeep(kept) {
  if (!kept) return [];
  const { version, onHold, upgrade } = kept;
  const words = [version ? `Kubernetes ${version}` : "", onHold ? "upgrades on hold" : ""].filter(Boolean).join(" · ");
  const state = { Running: "being upgraded by", Pending: "waits in", Failed: "failed in" }[upgrade?.state] ?? "";
  return [
    words ? h("span", { class: "detail" }, words) : null,
    upgrade ? h("span", { class: "detail", title: localTimes(upgrade.message) }, `${state} `, h("a", { href: `#cuprun/${upgrade.run}` }, upgrade.run)) : null,
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
  name: (c) => [h("a", { class: "cluster-name", href: `#cluster/${c.name}`, tabindex: -1 }, c.name)],
  state: (c) => [h("span", { class: "apart" }, statePill(c), " ", c.stateDetail ? h("span", { class: "detail" }, c.stateDetail) : null, ...upkeep(c.upkeep))],
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

function updateRow(row, cluster, isNew, evaluatedAt) {
  COLUMNS.forEach((column, index) => {
    const cell = row.children[index];
    if (column.key === "heartbeat") return updateHeartbeat(cell, instantOf(cluster.heartbeatAge, evaluatedAt));
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
  if (instant !== null && shown?.localName === "time") retime(shown, instant);
  else cell.replaceChildren(instant === null ? h("span", { class: "none" }, "–") : ticking(instant));
}

/** The fleet panel: keeps what the viewer typed and unfolded between updates. */
export class FleetView {
  constructor({ body, sub, filter, firstRows }) {
    Object.assign(this, { body, sub, filter, firstRows, all: false, document: null });
    this.rows = h("tbody", { role: "rowgroup", onkeydown: (event) => this.walk(event), onfocusin: () => this.stop() });
    this.table = h("table", { role: "table", class: "fleet", "aria-labelledby": "fleet-title" },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, COLUMNS.map((column) =>
        h("th", { role: "columnheader", scope: "col", class: column.number ? "num" : null }, column.title)))),
      this.rows);
    this.more = h("button", { type: "button", class: "more", onclick: () => { this.all = !this.all; this.render(); } });
    this.note = h("p", { class: "quiet", hidden: true });
    filter.addEventListener("input", () => this.render());
  }

  /** Show the answer of `GET /v1/clusters`. */
  show(document) {
    this.document = document;
    this.render();
  }

  /** Arrow keys walk the names of the clusters: all of them are one stop of the Tab key. */
  walk(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey || !event.target.matches(".cluster-name")) return;
    const names = [...this.rows.querySelectorAll(".cluster-name")];
    const next = names[names.indexOf(event.target) + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
  }

  /** Make the name that has the focus, else the first, the stop of the Tab key. */
  stop() {
    const names = [...this.rows.querySelectorAll(".cluster-name")];
    const here = names.find((name) => name === document.activeElement) ?? names.find((name) => name.tabIndex === 0) ?? names[0];
    for (const name of names) name.tabIndex = name === here ? 0 : -1;
  }

  render() {
    const { document: doc, body, sub } = this;
    if (!doc) return;
    const clusters = doc.items;
    const regions = new Set(clusters.map((c) => regionOf(c)[1]).filter(Boolean));
    const size = clusters.length ? `${count(clusters.length, "cluster")}${regions.size ? `, ${count(regions.size, "region")}` : ""}` : "";
    this.filter.hidden = clusters.length < FILTER_FROM;
    if (!clusters.length) {
      say(sub, "");
      if (isNews(body, "empty")) {
        body.replaceChildren(h("p", { class: "quiet" }, "No member cluster has joined yet. Add one with ",
          h("code", {}, "harbormaster apply -f member.yaml"), "; it appears here by itself."));
      }
      return;
    }
    if (isNews(body, "table")) body.replaceChildren(h("div", { class: "scroller" }, this.table), this.note, this.more);

    const wanted = this.filter.hidden ? [] : this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = wanted.length ? clusters.filter((c) => { const text = words(c); return wanted.every((w) => text.includes(w)); }) : clusters;
    const limit = this.firstRows();
    const cut = !this.all && found.length > limit;
    // A cut list begins with the clusters that need a look.
    const shown = cut ? [...found].sort((a, b) => a.eligible - b.eligible).slice(0, limit) : found;
    patchList(this.rows, shown, (c) => c.name, makeRow, (row, c, isNew) => updateRow(row, c, isNew, doc.evaluatedAt));

    this.stop();
    this.table.hidden = !found.length;
    this.note.hidden = found.length > 0;
    say(this.note, "No cluster matches the filter.");
    this.more.hidden = found.length <= limit;
    say(this.more, this.all ? `Show the first ${number(limit)} only` : `Show all ${number(found.length)} clusters`);
    this.more.setAttribute("aria-expanded", String(this.all));
    const matching = wanted.length ? `; ${number(found.length)} match` : "";
    say(sub, `${size}${matching}${cut ? `; ${number(shown.length)} shown, those not eligible first` : ""}`);
  }
}

