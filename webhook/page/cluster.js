/** One cluster: what it runs, when it may be touched, what disrupts it or waits for it, and what is placed there. */

import { statePill } from "./fleet.js";
import { h, isNews, say } from "./dom.js";
import { localTimes, moment } from "./zone.js";

const FOR = { All: "updates and upgrades", KubernetesVersion: "upgrades of Kubernetes", NodeImage: "upgrades of node images" };
const VERBS = { Running: "is being upgraded by", Pending: "waits in", Failed: "has failed in", NotStarted: "is to be upgraded by" };

/** A maintenance window in words. */
function ofWindow(window) {
  const state = window.missing ? "there is no such window"
    : window.unreadable ? "cannot be read, and counts as closed"
      : `${window.open ? "open" : "closed"}${window.until ? `, ${window.open ? "closes" : "opens"} ${moment(Date.parse(window.until))}` : ""}`;
  return h("li", {}, h("strong", {}, window.name), ` ${state}`, window.target ? h("span", { class: "detail" }, ` for ${FOR[window.target]}`) : null);
}

/** What an upgrade run does with the cluster, and when. */
function ofUpgrade(upgrade) {
  const { run, state, message, fromVersion: from, toVersion: to, expected } = upgrade;
  return [
    `${VERBS[state]} `, h("a", { href: `#cuprun/${run}` }, run),
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
  return [
    ["Kubernetes", version ? [version] : ["not known"]],
    ["Windows", windows?.length ? [list(windows.map(ofWindow))] : ["none: it may be touched at any time"]],
    ["Upgrade", upgrade ? ofUpgrade(upgrade) : ["no run is concerned with it"]],
    ["Held by", [...(onHold ? [h("code", {}, "harbormaster.dev/upgrade-hold"), " holds upgrades. "] : []),
      ...(cluster.holds?.length ? [list(cluster.holds.map(ofHold))] : onHold ? [] : ["nothing"])]],
    ["Placements", placements.length ? placements.flatMap((ref, index) => [index ? ", " : "", h("a", { href: `#${ref}` }, ref)]) : ["none"]],
  ];
}

/** The panel of the selected cluster. */
export class ClusterView {
  constructor({ panel, title, sub, json, body }) {
    Object.assign(this, { panel, title, sub, json, body });
    this.facts = h("dl", { class: "facts" });
  }

  /** No cluster is selected. */
  hide() {
    this.panel.hidden = true;
  }

  /** There is no such cluster, or it is being read. */
  showNothing(words) {
    this.panel.hidden = false;
    say(this.title, "Cluster");
    say(this.sub, "");
    this.json.hidden = true;
    if (isNews(this.body, words)) this.body.replaceChildren(h("p", { class: "quiet" }, words));
  }

  /** Show the answer of `GET /v1/clusters/NAME`. */
  show(cluster) {
    this.panel.hidden = false;
    say(this.title, cluster.name);
    this.json.hidden = false;
    this.json.href = `/v1/clusters/${encodeURIComponent(cluster.name)}`;
    if (isNews(this.sub, [cluster.state, cluster.stateDetail, cluster.upkeep?.upgrade])) {
      this.sub.replaceChildren(statePill(cluster), " ", cluster.stateDetail ?? "");
    }
    if (isNews(this.body, "cluster")) this.body.replaceChildren(this.facts);
    if (!isNews(this.facts, [cluster.name, cluster.upkeep, cluster.holds, cluster.placements])) return;
    this.facts.replaceChildren(...facts(cluster).map(([word, content]) => h("div", {}, h("dt", {}, word), h("dd", {}, content))));
  }
}
