/** One cluster: what it runs, when it may be touched, what disrupts it, what is placed there, how it went, and its loss. */

import { showActions } from "./actions.js";
import { ask } from "./api.js";
import { href } from "./address.js";
import { ticking } from "./clock.js";
import { isCordoned, ofCluster, showCommands } from "./commands.js";
import { h, isNews, patchList, say } from "./dom.js";
import { regionOf, statePill } from "./fleet.js";
import { label, number, propertyValue, quantity, taint } from "./format.js";
import { sparkline } from "./sparkline.js";
import { WhatIf } from "./whatif.js";
import { localTimes, moment } from "./zone.js";

const FOR = { All: "updates and upgrades", KubernetesVersion: "upgrades of Kubernetes", NodeImage: "upgrades of node images" };
const VERSION = "k8s.io/k8s-version"; // the property of an agent, where no upgrader reports a version
const VERBS = { Running: "is being upgraded by", Pending: "waits in", Failed: "failed in", NotStarted: "will be upgraded by" };

/** A maintenance window in words. */
function ofWindow(window) {
  const state = window.missing ? "does not exist"
    : window.unreadable ? "unreadable, counts as closed"
      : `${window.open ? "open" : "closed"}${window.until ? `, ${window.open ? "closes" : "opens"} ${moment(Date.parse(window.until))}` : ""}`;
  return h("li", {}, h("strong", {}, window.name), ` ${state}`, window.target ? h("span", { class: "detail" }, ` for ${FOR[window.target]}`) : null);
}

/** What an upgrade run does with the cluster, and when. */
function ofUpgrade(upgrade) {
  const { run, state, message, fromVersion: from, toVersion: to, expected } = upgrade;
  return [
    `${VERBS[state]} `, h("a", { href: href("runs", `cuprun/${run}`) }, run),
    from && to && from !== to ? `, from ${from} to ${to}` : "",
    expected ? `, expected ${moment(Date.parse(expected.from))} to ${moment(Date.parse(expected.to))}` : "",
    message ? h("span", { class: "detail" }, localTimes(message)) : null,
  ].filter(Boolean);
}

function ofHold(hold) {
  const words = hold.message || `${hold.kind || "A reservation"} is disrupting it`;
  return h("li", {}, localTimes(words), hold.until ? `, until ${moment(Date.parse(hold.until))}` : "");
}

function list(items) {
  return h("ul", { class: "plain" }, items);
}

/** The facts as pairs of a word and what is to be seen beside it. */
function facts(cluster) {
  const { version, onHold, upgrade, windows } = cluster.upkeep ?? {};
  const placements = cluster.placements ?? [];
  const reported = cluster.properties?.[VERSION]?.value;
  return [
    ["Kubernetes", [version || reported || "unknown"]],
    ["Windows", windows?.length ? [list(windows.map(ofWindow))] : ["none: may be changed at any time"]],
    ["Upgrade", upgrade ? ofUpgrade(upgrade) : ["not part of any run"]],
    ["Held by", [...(onHold ? [h("code", {}, "harbormaster.dev/upgrade-hold"), " holds upgrades. "] : []),
      ...(cluster.holds?.length ? [list(cluster.holds.map(ofHold))] : onHold ? [] : ["nothing"])]],
    ["Placements", placements.length ? placements.flatMap((ref, index) => [index ? ", " : "", h("a", { href: href("placement", ref) }, ref)]) : ["none"]],
    ["Labels", labelsOf(cluster)],
  ];
}

function labelsOf(cluster) {
  const labels = Object.entries(cluster.labels ?? {});
  const taints = cluster.taints ?? [];
  if (!labels.length && !taints.length) return ["none"];
  return [h("span", { class: "apart" },
    labels.map(([key, value]) => h("a", { class: "label", href: href("fleet", "", { label: `${key}=${value}` }), title: `${key}=${value}: the clusters that have it` }, label(key, value))),
    taints.map((one) => h("span", { class: "taint", title: `taint ${one.key}=${one.value ?? ""}:${one.effect}` }, taint(one))))];
}

/** A name without the domain in front of it; that of the CPU as people write it. */
const bare = (name) => name.slice(name.indexOf("/") + 1).replace(/\bcpu$/, "CPU");

const FEW_STEPS = 4; // a line of fewer looks like a dash

/** The day of a property as a line, or why there is none. */
function dayOfValues({ name, value, values }, history) {
  const steps = values?.filter((one) => one !== null).length ?? 0;
  if (steps >= FEW_STEPS) return sparkline(values, `${bare(name)} over the last day: ${inWords(name, values)}`);
  if (!steps) return h("span", { class: "none" }, quantity(value) === null ? "not a number" : "no values yet");
  const first = Date.parse(history.from) + values.findIndex((one) => one !== null) * history.stepSeconds * 1000;
  return h("span", { class: "quiet" }, `since ${moment(first)}`);
}

/** What the cluster reports now, with the day of those that are numbers. */
function rowsOf(cluster, history) {
  const reported = new Map(Object.entries(cluster.properties ?? {}).map(([name, entry]) => [name, { name, ...entry }]));
  for (const resource of ["cpu", "memory"]) {
    const amount = cluster[resource];
    if (amount) reported.set(`available ${resource}`, { name: `available ${resource}`, value: amount.available, of: amount.allocatable });
  }
  const days = new Map((history?.series ?? []).map((one) => [one.name, one.values]));
  return [...reported.values()].map((entry) => ({ ...entry, values: days.get(entry.name) ?? null }));
}

function inWords(name, values) {
  const known = values.filter((value) => value !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)].map((value) => propertyValue(name, number(value, 3).replaceAll(",", "")));
  return low === high ? `${low}, unchanged` : `${low} to ${high}`;
}

/** Cordon or uncordon a cluster, whichever changes it. */
function actionOf(cluster) {
  const action = isCordoned(cluster) ? "uncordon" : "cordon";
  return [{ action, target: { kind: "MemberCluster", name: cluster.name } }];
}

/** The panel of a cluster. */
export class ClusterView {
  constructor({ title, sub, json, body }) {
    Object.assign(this, { title, sub, json, body, name: "", history: null });
    this.facts = h("dl", { class: "facts" });
    this.commands = h("ul", { class: "commands", "aria-label": "Next steps" });
    this.actions = h("p", { class: "actions", hidden: true });
    this.rows = h("tbody");
    this.table = h("table", { class: "properties" },
      h("caption", { class: "unseen" }, "Properties and their values over the last day"),
      h("thead", {}, h("tr", {}, ["Property", "Now", "Last day", "Range", "Seen"].map((word) => h("th", { scope: "col" }, word)))), this.rows);
    this.none = h("p", { class: "quiet", hidden: true }, "No properties reported yet.");
    this.whatif = new WhatIf({
      name: "What if this cluster were lost", label: "Show the effect",
      controls: h("p", {}, "Simulate the loss of this cluster and see where its placements would move. Nothing is written."),
      question: () => ({ lost: [this.name] }), path: () => this.name, read: () => ({ lost: "true" }), take: () => {},
    });
    this.all = [
      this.facts,
      h("section", { class: "part" }, h("h3", {}, "Properties"), h("div", { class: "scroller" }, this.table), this.none),
      h("section", { class: "part" }, h("h3", {}, "If it were lost"), this.whatif.element),
      h("section", { class: "part" }, h("h3", {}, "Next steps"), this.actions, this.commands),
    ];
  }

  /** There is no such cluster, or it is being read. */
  showNothing(words) {
    this.name = "";
    say(this.title, "Cluster");
    say(this.sub, "");
    this.json.hidden = true;
    if (isNews(this.body, words)) this.body.replaceChildren(h("p", { class: words.endsWith("…") ? "quiet" : "quiet nothing" }, words, words.endsWith("…") ? null : [" ", h("a", { href: href("fleet") }, "Show all clusters")]));
  }

  /** Read the day of a cluster; returns what that cost. */
  async read(name) {
    const { document, bytes: cost } = await ask(`/v1/clusters/${encodeURIComponent(name)}/history`);
    this.history = document;
    return cost;
  }

  /** Show the answer of `GET /v1/clusters/NAME`. */
  show(cluster) {
    if (this.name !== cluster.name) {
      this.name = cluster.name;
      this.whatif.reset();
    }
    say(this.title, cluster.name);
    this.json.hidden = false;
    this.json.href = `/v1/clusters/${encodeURIComponent(cluster.name)}`;
    if (isNews(this.sub, [cluster.state, cluster.stateDetail, cluster.upkeep?.upgrade, cluster.lastHeartbeat, cluster.labels])) {
      const beat = Date.parse(cluster.lastHeartbeat ?? "");
      const [, region] = regionOf(cluster);
      const known = [localTimes(cluster.stateDetail ?? ""), region, Number.isNaN(beat) ? "" : ticking(beat, "last heartbeat ", " ago")].filter(Boolean);
      this.sub.replaceChildren(statePill(cluster), " ", ...known.flatMap((one, index) => [index ? " · " : "", one]));
    }
    if (isNews(this.body, "cluster")) this.body.replaceChildren(...this.all);
    this.whatif.follow();
    showCommands(this.commands, ofCluster(cluster));
    if (isNews(this.actions, [cluster.name, isCordoned(cluster)])) showActions(this.actions, [actionOf(cluster)]);
    this.showProperties(cluster);
    if (!isNews(this.facts, [cluster.name, cluster.upkeep, cluster.holds, cluster.placements, cluster.labels, cluster.taints, cluster.properties?.[VERSION]?.value])) return;
    this.facts.replaceChildren(...facts(cluster).map(([word, content]) => h("div", {}, h("dt", {}, word), h("dd", {}, content))));
  }

  showProperties(cluster) {
    const history = this.history?.cluster === cluster.name ? this.history : null;
    const rows = rowsOf(cluster, history);
    this.table.hidden = !rows.length;
    this.none.hidden = rows.length > 0;
    patchList(this.rows, rows, ({ name }) => name,
      () => h("tr", {}, h("th", { scope: "row" }), h("td", { class: "num" }), h("td"), h("td"), h("td")),
      (row, entry) => {
        if (!isNews(row, entry)) return;
        const [name, now, day, range, seen] = row.children;
        name.replaceChildren(h("span", { title: entry.name }, bare(entry.name)));
        now.replaceChildren(entry.of ? `${propertyValue(entry.name, entry.value)} of ${propertyValue(entry.name, entry.of)}` : propertyValue(entry.name, entry.value) || "–");
        const known = entry.values?.some((value) => value !== null);
        day.replaceChildren(dayOfValues(entry, history));
        range.replaceChildren(known ? inWords(entry.name, entry.values) : h("span", { class: "none" }, "–"));
        const observed = Date.parse(entry.observedAt ?? "");
        seen.replaceChildren(...(entry.expired ? [`expired ${moment(Date.parse(entry.validUntil))}`] : Number.isNaN(observed) ? [h("span", { class: "none" }, "–")] : [ticking(observed, "", " ago")]));
      });
  }
}
