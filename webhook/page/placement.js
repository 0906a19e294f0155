/** One placement in full: its numbers, why these clusters, how far it has come on each, what lies behind it, and what if. */

import { href } from "./address.js";
import { showActions } from "./actions.js";
import { ask, placementPath } from "./api.js";
import { ticking } from "./clock.js";
import { ofPlacement, showCommands } from "./commands.js";
import { h, isNews, patchList, say } from "./dom.js";
import { ExplanationView } from "./explanation.js";
import { count, number, tally } from "./format.js";
import { GraphView } from "./graph.js";
import { Unfolding, decisions, objectsOn, yamlOf } from "./past.js";
import { numbers } from "./placements.js";
import { pillOf, refer } from "./reference.js";
import { releaseOf } from "./release.js";
import { clustersOf, currentRun, lastChange, noRollback, undoCommand, undoOf, whyOf } from "./runs.js";
import { Sections } from "./sections.js";
import { grouped } from "./selection.js";
import { call } from "./server.js";
import { ROLLOUT_STATES, tone } from "./states.js";
import { Tabs } from "./tabs.js";
import { Timeline } from "./timeline.js";
import { WhatIf } from "./whatif.js";
import { localTimes } from "./zone.js";

const NAMED_CLUSTERS = 12;
const NAMED_RUNS = 3;
const SHOWN_REMOVALS = 20;
const MOST_DIGESTS = 50; // that one action confirms
const FIRST_CLUSTERS = 30; // whose objects are offered at once

const TAINT = "[^=:,\\s]+(=[^=:,\\s]*)?(:NoSchedule)?";
const TAINTS = `\\s*${TAINT}(,${TAINT})*\\s*`;

/** The tolerations of taints as kubectl writes them: `key=value:NoSchedule`, `key:NoSchedule`, `key`. */
function tolerationsOf(text) {
  return text.split(",").map((one) => one.trim()).filter(Boolean).map((taint) => {
    const [, key, , value, , effect] = /^([^=:]*)(=([^:]*))?(:(.*))?$/.exec(taint) ?? [null, taint];
    return { key, ...(value ? { operator: "Equal", value } : { operator: "Exists" }), ...(effect ? { effect } : {}) };
  });
}

/** `payments`, or `shop/cart` for a placement of a namespace. */
function fullName(placement) {
  return placement.namespace ? `${placement.namespace}/${placement.name}` : placement.name;
}

const some = (names) => (names.length > NAMED_CLUSTERS ? `${names.slice(0, NAMED_CLUSTERS).join(", ")} and ${number(names.length - NAMED_CLUSTERS)} more` : names.join(", "));

function progress(clusters) {
  if (!clusters.length) return [h("p", { class: "quiet" }, "No cluster is picked, so nothing rolls out.")];
  const states = tally(clusters, (c) => c.state, ROLLOUT_STATES);
  const strip = h("div", { class: "strip", role: "img", "aria-label": states.map(([state, n]) => `${number(n)} ${state}`).join(", ") });
  for (const [state, n] of states) {
    const piece = h("i", { class: `fill ${tone(state)}` });
    piece.style.flexGrow = n;
    strip.append(piece);
  }
  const groups = states.map(([state, n]) => {
    const own = clusters.filter((c) => c.state === state);
    const told = own.filter((c) => c.detail && state !== "available");
    const silent = own.filter((c) => !told.includes(c)).map((c) => c.cluster);
    const old = own.filter((c) => c.serves === "old").length;
    const lines = [];
    if (silent.length) lines.push(h("p", {}, some(silent)));
    const reasons = grouped(told, (c) => c.detail);
    for (const [detail, same] of reasons.slice(0, NAMED_CLUSTERS)) lines.push(h("p", {}, h("b", {}, some(same.map((c) => c.cluster))), `: ${localTimes(detail)}`));
    if (old) lines.push(h("p", { class: "quiet" }, `${old === own.length ? (old === 1 ? "it serves" : "all of them serve") : `${number(old)} of them ${old === 1 ? "serves" : "serve"}`} the old release until then`));
    if (reasons.length > NAMED_CLUSTERS) lines.push(h("p", { class: "quiet" }, `and ${count(reasons.length - NAMED_CLUSTERS, "more reason")}`));
    return h("li", {}, h("span", {}, pillOf(state, `${number(n)} ${state}`)), h("div", {}, lines));
  });
  return [strip, h("ul", { class: "rollout-states" }, groups)];
}

/** A text in which the name of the cluster that it starts with is a link. */
function withClusters(text, clusters) {
  const [name] = /^[^:\s]+(?=: )/.exec(text) ?? [];
  if (!clusters.some((one) => one.cluster === name)) return [text];
  return [h("a", { href: href("cluster", name) }, name), text.slice(name.length)];
}

function strategyWords(strategy) {
  if (!strategy || typeof strategy !== "object") return "";
  const { type, rollingUpdate } = strategy;
  const limits = Object.entries(rollingUpdate ?? {}).filter(([, value]) => typeof value !== "object").map(([key, value]) => `${key} ${value}`);
  return [type ?? "", ...limits].filter(Boolean).join(", ");
}

function resourceWords(resource) {
  const name = resource.namespace ? `${resource.namespace}/${resource.name ?? ""}` : (resource.name ?? "");
  return `${resource.kind ?? ""} ${name}`.trim();
}

/** The reason of a condition. Only those of conditions that are not True have a paragraph. */
function reasonOf({ type, status, reason }) {
  return status === "True" ? reason : refer(`${type.replace(/^(Cluster)?ResourcePlacement(?=.)/, "")}: ${reason}`, reason);
}

function advisory(line) {
  const [, rule, words] = /^([A-Z]+-\d+)( .*)$/s.exec(line) ?? [];
  return rule ? [refer(rule), localTimes(words)] : [localTimes(line)];
}

function more(placement) {
  const out = [];
  const resources = placement.selectedResources;
  if (resources?.length === 0 && placement.strategy?.type === "External" && placement.clusters.length) {
    out.push(h("p", { class: "quiet" }, "Staged updates decide which version each cluster has."));
  } else if (Array.isArray(resources)) {
    out.push(h("details", {}, h("summary", {}, `${count(resources.length, "resource")} selected`),
      h("ul", { class: "plain" }, resources.slice(0, 50).map((one) => h("li", {}, resourceWords(one))),
        resources.length > 50 ? h("li", { class: "quiet" }, `and ${number(resources.length - 50)} more`) : null)));
  }
  if (placement.advisories?.length) {
    out.push(h("p", {}, count(placement.advisories.length, "warning")),
      h("ul", { class: "plain" }, placement.advisories.map((line) => h("li", {}, ...advisory(line)))));
  }
  if (placement.conditions?.length) {
    out.push(h("details", {}, h("summary", {}, count(placement.conditions.length, "condition")),
      h("ul", { class: "conditions" }, placement.conditions.map((c) => h("li", {},
        h("b", {}, c.type), ` ${c.status}`, ...(c.reason ? [", ", reasonOf(c)] : []), c.message ? h("span", { class: "detail" }, localTimes(c.message)) : null)))));
  }
  return out;
}

/** What a member deletes with a namespace besides: volume claims, and objects that were not placed. */
function besides(contents) {
  if (!contents) return [];
  const { volumeClaims, others, atLeast, unknownClusters, countedAt } = contents;
  const unknown = `unknown on ${count(unknownClusters, "cluster")}`;
  if (!countedAt) return [h("span", { class: "detail" }, `volume claims and other objects: ${unknown}`)];
  return [h("span", { class: "detail" }, `with ${atLeast ? "at least " : ""}${count(volumeClaims, "volume claim")} and ${count(others, "other object")} on the members, `,
    ticking(Date.parse(countedAt), "counted ", " ago"), unknownClusters ? `, ${unknown}` : "")];
}

/** The removals that wait for confirmation: what, from how many clusters, since when, and its digest. */
function removalRows(removals) {
  const rows = removals.slice(0, SHOWN_REMOVALS).map((one) => {
    const since = Date.parse(one.since ?? "");
    const amount = one.kind === "Cluster" ? count(one.objects, "object") : `${count(one.objects, "object")} on ${count(one.clusterCount, "cluster")}`;
    return h("li", {}, h("b", {}, one.effect), ` · ${amount}`,
      ...(Number.isNaN(since) ? [" · since an unknown time"] : [" · ", ticking(since, "pending for ", "")]),
      ...besides(one.onMembers), h("span", { class: "detail" }, `digest ${one.digest}`));
  });
  const rest = removals.length - SHOWN_REMOVALS;
  return rest > 0 ? [...rows, h("li", { class: "quiet" }, `and ${number(rest)} more: ${call("removals")}`)] : rows;
}

/** Links to the update runs of a placement, the latest first. */
function runLinks(own) {
  const shown = own.slice(0, NAMED_RUNS).flatMap((run, index) => [index ? ", " : "", h("a", { href: href("runs", run.ref) }, run.name), ` ${run.state}`]);
  return ["Update runs: ", ...shown, own.length > NAMED_RUNS ? ` and ${number(own.length - NAMED_RUNS)} earlier` : ""];
}

/** The panel of the selected placement. */
export class PlacementView {
  constructor({ title, sub, json, body, firstRows }) {
    Object.assign(this, { title, sub, json, body, ref: null });
    this.why = h("p", { class: "callout warn", hidden: true });
    this.problem = h("p", { class: "problem", role: "status", hidden: true });
    this.waiting = h("p", { class: "quiet opening-words" }, "Loading the explanation…");
    this.explanation = new ExplanationView({ firstRows });
    this.rollout = h("section", { class: "rollout", "aria-label": "Rollout" });
    this.rolloutSub = h("span", { class: "sub" });
    this.progress = h("div", {});
    this.runs = h("p", { class: "own-runs", hidden: true });
    this.actions = h("p", { class: "actions", hidden: true });
    this.rollback = h("p", { class: "quiet no-rollback", hidden: true }); // why the last run cannot be rolled back
    this.removalList = h("ul", { class: "conditions" });
    this.removals = h("section", { class: "part removals", "aria-label": "Pending removals", hidden: true }, h("h3", {}, "Pending removals"),
      h("p", { class: "quiet" }, "This content remains on the members until its removal is confirmed, or until its source is restored."), this.removalList);
    this.timeline = new Timeline({ firstRows });
    this.course = h("details", { class: "course", hidden: true }, h("summary", {}, "Rollout timeline"), this.timeline.element);
    this.course.addEventListener("toggle", () => this.timeline.render());
    this.rollout.append(h("h3", {}, "Rollout ", this.rolloutSub), this.progress, this.course);
    this.more = h("div", { class: "more-about" });
    this.commands = h("ul", { class: "commands", "aria-label": "Next steps" });
    this.decisions = new Unfolding({ title: "Earlier decisions", className: "decisions", read: () => decisions(this.ref) });
    this.yaml = new Unfolding({ title: "YAML", className: "as-yaml", read: () => yamlOf(this.ref) });
    this.release = new Unfolding({ title: "Changes of the next release", className: "next-release", read: () => releaseOf(this.placement) });
    this.objects = h("details", { class: "unfolding below" }, h("summary", {}, "Objects on a cluster"), this.clusters = h("ul", { class: "below-clusters" }),
      this.moreClusters = h("button", { type: "button", class: "more", onclick: () => { this.allClusters = true; this.showClusters(); } }));
    this.objects.addEventListener("toggle", () => this.showClusters());
    this.digests = []; // of the removals that one action confirms
    this.below = new Map(); // cluster → the disclosure of its objects
    this.sections = new Sections(
      { decisions: this.decisions.element, release: this.release.element, objects: this.objects, yaml: this.yaml.element }, (name) => this.clusterBelow(name));
    this.tabs = new Tabs("Views of the placement", [["", "Overview"], ["graph", "Graph"]]);
    this.graph = new GraphView();
    this.makeWhatIf();
    this.all = [this.actions, this.tabs.element, this.graph.element, this.why, this.removals, this.runs, this.rollback, this.problem, this.waiting, this.explanation.element, this.rollout, this.more,
      h("section", { class: "part" }, h("h3", {}, "Next steps"), this.commands),
      h("section", { class: "part" }, h("h3", {}, "What if"), this.whatif.element),
      h("section", { class: "part unfoldings" }, h("h3", {}, "Details"), this.decisions.element, this.release.element, this.objects, this.yaml.element)];
  }

  /** Another number of clusters, or the loss of one: before and after, as the engine plans it. */
  makeWhatIf() {
    this.number = h("input", { type: "number", min: 0, max: 2147483647, step: 1, id: "whatif-number", class: "control" });
    this.numberLabel = h("label", { for: "whatif-number" }, "it requested ", this.number, " clusters");
    this.lost = h("select", { id: "whatif-lost", class: "control" }, h("option", { value: "" }, "none"));
    this.tolerate = h("input", { type: "text", id: "whatif-tolerate", class: "control", pattern: TAINTS, title: "taints, such as key=value:NoSchedule or key, separated by commas", placeholder: "key=value:NoSchedule", autocomplete: "off", spellcheck: "false" });
    this.tolerateLabel = h("label", { for: "whatif-tolerate" }, "it tolerated the taint ", this.tolerate);
    this.whatif = new WhatIf({
      name: "What if",
      controls: h("div", { class: "whatif-controls" }, this.numberLabel, this.tolerateLabel, h("label", { for: "whatif-lost" }, "this cluster were lost ", this.lost)),
      question: () => this.question(), path: () => this.ref,
      read: () => ({ n: this.numberLabel.hidden ? "" : this.number.value.trim(), lost: this.lost.value, tolerate: this.tolerateLabel.hidden ? "" : this.tolerate.value.trim() }),
      take: ({ n, lost, tolerate }) => {
        if (n) this.number.value = n;
        this.tolerate.value = tolerate;
        if (lost && ![...this.lost.options].some((one) => one.value === lost)) this.lost.append(h("option", { value: lost }, lost));
        this.lost.value = lost;
      },
    });
  }

  async question() {
    const body = { lost: this.lost.value ? [this.lost.value] : [] };
    const { placement } = this;
    const wanted = this.number.value.trim();
    const isOther = placement.type === "PickN" && wanted !== "" && Number(wanted) !== placement.wanted;
    const tolerations = this.tolerateLabel.hidden ? [] : tolerationsOf(this.tolerate.value);
    if (isOther || tolerations.length) {
      const { document } = await ask(`${placementPath(placement.ref)}/object`);
      const policy = { ...document.spec.policy };
      if (isOther) policy.numberOfClusters = Number(wanted);
      if (tolerations.length) policy.tolerations = [...(policy.tolerations ?? []), ...tolerations];
      body.objects = [{ ...document, spec: { ...document.spec, policy } }];
    }
    if (!body.lost.length) {
      const { kind, namespace, name } = placement;
      body.placements = [namespace ? { kind, namespace, name } : { kind, name }];
    }
    return body;
  }

  offerWhatIf(placement, isNew) {
    this.numberLabel.hidden = placement.type !== "PickN";
    this.tolerateLabel.hidden = placement.type === "PickFixed"; // which asks no filter
    if (isNew) {
      this.number.value = placement.wanted ?? "";
      this.tolerate.value = "";
    }
    const names = placement.clusters.map((one) => one.cluster).sort();
    if (!isNews(this.lost, names)) return;
    const chosen = this.lost.value;
    this.lost.replaceChildren(this.lost.firstElementChild, ...names.map((name) => h("option", { value: name }, name)));
    this.lost.value = names.includes(chosen) ? chosen : "";
  }

  /** The clusters whose objects can be seen: each reads them when it is opened. */
  showClusters() {
    if (!this.objects.open || !this.placement) return;
    const names = this.placement.clusters.map((one) => one.cluster);
    const shown = this.allClusters ? names : names.slice(0, FIRST_CLUSTERS);
    patchList(this.clusters, shown, (name) => name, (name) => {
      const own = new Unfolding({ title: name, className: "on-cluster", read: () => objectsOn(this.ref, name) });
      this.below.set(name, own);
      this.sections.note(own.element, { section: "objects", on: name });
      return h("li", {}, own.element);
    }, () => {});
    this.moreClusters.hidden = shown.length === names.length;
    say(this.moreClusters, `Show all ${number(names.length)} clusters`);
  }

  /** The disclosure of the objects on a cluster. */
  clusterBelow(name) {
    this.allClusters ||= this.placement.clusters.findIndex((one) => one.cluster === name) >= FIRST_CLUSTERS;
    this.showClusters();
    return this.below.get(name)?.element;
  }

  /** Something about the placement has changed: read again what is unfolded. */
  refresh() {
    this.graph.refresh();
    for (const one of [this.decisions, this.release, this.yaml, ...this.below.values()]) one.again();
  }

  /** Nothing to show: no placement at all, or the one in the address does not exist. */
  showNothing(words) {
    this.ref = null;
    this.body.classList.remove("opening", "as-graph");
    say(this.title, "Placement");
    say(this.sub, "");
    this.json.hidden = true;
    if (isNews(this.body, words)) this.body.replaceChildren(h("p", { class: "quiet nothing" }, words));
  }

  /** Show a placement as listed, or as read in full, with those of the runs that are its own. */
  show(placement, runs) {
    const isNew = this.ref !== placement.ref;
    this.placement = placement;
    if (isNew) {
      this.ref = placement.ref;
      this.digests = [];
      for (const one of [this.decisions, this.release, this.yaml]) one.reset();
      this.objects.open = this.allClusters = false;
      this.below.clear();
      patchList(this.clusters, [], (name) => name, () => null, () => {});
      this.whatif.reset();
      this.body.classList.add("opening"); // what comes bit by bit is shown when all of it is there: nothing jumps
      this.timeline.reset();
      this.course.hidden = true;
      this.course.open = placement.state !== "available";
      this.explanation.reset();
      this.explanation.element.hidden = true;
      this.problem.hidden = true;
      this.waiting.hidden = false;
      this.more.replaceChildren();
      isNews(this.more, null);
    }
    if (isNews(this.body, "placement")) this.body.replaceChildren(...this.all);
    say(this.title, fullName(placement));
    const decided = Date.parse(placement.decidedAt ?? "");
    const stalled = Date.parse(placement.stalledSince ?? "");
    if (isNews(this.sub, [numbers(placement), placement.decidedAt, placement.stalledSince, placement.judgedAgain])) {
      this.sub.replaceChildren(numbers(placement),
        ...(Number.isNaN(decided) ? [] : [" · ", ticking(decided, "decided ", " ago")]),
        ...(placement.judgedAgain ? [" · being evaluated again"] : []),
        ...(Number.isNaN(stalled) ? [] : [" · ", ticking(stalled, "stalled, no progress for ", "")]));
    }
    this.json.hidden = false;
    this.json.href = placementPath(placement.ref);
    const run = currentRun(placement, runs);
    const why = whyOf(placement, run);
    this.why.hidden = !why;
    this.why.className = `callout ${tone(placement.state)}`;
    if (isNews(this.why, why)) this.why.replaceChildren(...withClusters(why, placement.clusters));
    this.offerWhatIf(placement, isNew);
    this.whatif.follow();
    this.showClusters();
    const clusters = clustersOf(placement, run);
    this.showTab(placement, clusters);
    if (isNews(this.progress, clusters)) this.progress.replaceChildren(...progress(clusters));
    if ("removals" in placement || !placement.removalPendingSince) this.showRemovals(placement.removals ?? []);
    const own = (runs ?? []).filter((run) => run.placement === placement.ref);
    this.runs.hidden = !own.length;
    if (isNews(this.runs, own.map((run) => [run.ref, run.state]))) this.runs.replaceChildren(...runLinks(own));
    const last = lastChange(own);
    const refused = last ? noRollback(last) : "";
    this.rollback.hidden = !refused;
    say(this.rollback, refused);
    showCommands(this.commands, [...ofPlacement(placement, run), ...(last?.canUndo ? [[`Roll back to snapshot ${last.undoTo}`, undoCommand(last)]] : [])]);
    this.offerActions(placement, last);
    if (placement.timeline?.bands.some((band) => band.bars.length)) {
      this.course.hidden = false;
      this.timeline.update(placement.timeline);
    }
    if ("strategy" in placement || "selectedResources" in placement) {
      say(this.rolloutSub, strategyWords(placement.strategy));
      const open = [...this.more.querySelectorAll("details")].map((details) => details.open);
      if (isNews(this.more, [placement.selectedResources, placement.advisories, placement.conditions])) {
        this.more.replaceChildren(...more(placement));
        this.more.querySelectorAll("details").forEach((details, index) => { details.open = open[index] ?? false; });
      }
    }
  }

  /** Show the tab in the address, and unfold what it names. */
  showTab(placement, clusters) {
    const tab = this.tabs.current;
    this.tabs.show("placement", placement.ref);
    this.body.classList.toggle("as-graph", tab === "graph");
    this.graph.show(placement, clusters, tab === "graph");
    this.sections.follow(placement.ref);
    if (!this.body.classList.contains("opening")) this.sections.arrive();
  }

  /** What came bit by bit is all there. */
  opened() {
    this.body.classList.remove("opening");
    this.waiting.hidden = true;
    this.graph.edges.draw();
  }

  showRemovals(removals) {
    this.removals.hidden = !removals.length;
    this.digests = removals.map((one) => one.digest).filter(Boolean);
    if (isNews(this.removalList, removals.map((one) => [one.digest, one.objects, one.clusterCount, one.since, one.onMembers]))) this.removalList.replaceChildren(...removalRows(removals));
  }

  /** The actions on the placement, above its tabs: confirm its removals, roll its last run back. */
  offerActions(placement, last) {
    const { digests } = this;
    if (!isNews(this.actions, [placement.ref, digests, last?.ref, last?.undoTo])) return;
    const { kind, namespace, name } = placement;
    const out = [];
    if (digests.length && digests.length <= MOST_DIGESTS) {
      const order = { action: "confirm", target: namespace ? { kind, namespace, name } : { kind, name }, digests };
      out.push([order, digests.length === 1 ? "Confirm the removal" : `Confirm all ${number(digests.length)} removals`]);
    }
    if (last?.canUndo) out.push([undoOf(last), `Roll back to snapshot ${last.undoTo}`]);
    showActions(this.actions, out);
  }

  /** Show the explanation of the placement shown. */
  explain(document, text) {
    this.opened();
    this.problem.hidden = true;
    this.explanation.element.hidden = false;
    this.explanation.show(document, text, this.ref);
    this.sections.arrive();
  }

  /** The explanation cannot be had; what was shown before stays. */
  cannotExplain(message) {
    this.opened();
    this.problem.hidden = false;
    say(this.problem, `Explanation unavailable: ${message}`);
    this.sections.arrive();
  }
}
