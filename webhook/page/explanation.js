/** Why these clusters: one row per cluster with its points as a stacked bar, or the check that turned it away. */

import { beside, href } from "./address.js";
import { h, isNews, patchList, pill, say } from "./dom.js";
import { count, number, propertyValue, tally } from "./format.js";
import { refer } from "./reference.js";
import { tone } from "./states.js";
import { axisOf, hasSpread, isOverLimit, lengthsOf, termRule, termsOf } from "./terms.js";
import { checkWords, isMember, trace } from "./trace.js";
import { because } from "./trigger.js";
import { localTimes, moment } from "./zone.js";

const PICKED = new Set(["Picked", "Kept"]);
const FIRST_HELPS = 3;
const NAMED_CLUSTERS = 3;
const OVER = "one more placement there exceeds the limit of a spread constraint (maxSkew): −1,000, so it ranks last";

const isPicked = (item) => PICKED.has(item.verdict);
const isCandidate = (item) => item.verdict === "ScoreTooLow" || item.verdict === "NotNeeded";
const isScored = (item) => isPicked(item) || isCandidate(item);

/** The check behind each category that a filter may turn a cluster away with. */
const CHECK = {
  AffinityMismatch: "affinity", TaintNotTolerated: "taints", TopologySpreadViolated: "topology",
  NamespaceDataMissing: "namespace", NamespaceMissing: "namespace",
  ClusterLeaving: "eligibility", AgentNotReporting: "eligibility", HeartbeatStale: "eligibility",
  AgentNotJoined: "eligibility", HealthUnknown: "eligibility", ClusterUnhealthy: "eligibility",
};

/** `4 short`, `spread −1`, `over limit`, `by name`: what separated a loser from the last cluster picked. */
function distance(item) {
  const gap = item.gap;
  if (!gap) return "not picked";
  if (gap.difference > 0) return "not needed"; // it came after the placement had all it wants
  if (gap.decidedBy === "affinity") return `${number(Math.abs(gap.difference ?? 0))} short`;
  if (gap.decidedBy === "topology" || gap.decidedBy === "topologySpread") return isOverLimit(item) ? "over limit" : `spread ${number(gap.difference ?? 0)}`;
  if (gap.decidedBy === "name") return "by name";
  return `by ${gap.decidedBy}`;
}

function verdictPill(item) {
  if (isPicked(item)) return pill(item.verdict.toLowerCase(), tone(item.verdict.toLowerCase()));
  if (isCandidate(item)) return pill(distance(item), "calm");
  if (item.verdict === "Dropped") return pill("dropped", "warn");
  return null;
}

/** The failing check and its numbers, as said by the API: `reason` begins with the category, which the name of the check replaces. */
function refusal(item) {
  const failed = (item.filters ?? []).find((check) => (CHECK[item.verdict] ? check.name === CHECK[item.verdict] : !check.pass));
  let words = item.reason || item.summary || (failed ? checkWords(failed) : "");
  if (words.startsWith(item.verdict)) words = words.slice(item.verdict.length).replace(/^[\s:,;–-]+/, "");
  return [h("b", {}, CHECK[item.verdict] ?? item.verdict), words ? `: ${localTimes(words)}` : ""];
}

function bar(item, terms, axis) {
  const parts = lengthsOf(item, terms, axis.spread);
  const side = (chosen, range, name) => {
    const element = h("span", { class: `side ${name}` });
    element.style.flexGrow = range;
    for (const part of chosen) {
      const piece = h("i", { class: part.colour, title: `${part.name}: ${number(part.points)}` });
      piece.style.flexBasis = `${(part.length / range) * 100}%`;
      element.append(piece);
    }
    return element;
  };
  const isOver = isOverLimit(item);
  const spoken = [isOver ? "limit of the spread exceeded" : "", ...parts.map((part) => `${part.name} ${number(part.points)}`)].filter(Boolean);
  return h("span", { class: isOver ? "bar-track over" : "bar-track", role: "img", "aria-label": spoken.join(", ") || "no points", title: isOver ? OVER : null },
    axis.low < 0 ? side(parts.filter((p) => p.points < 0).reverse(), -axis.low, "below") : null,
    side(parts.filter((p) => p.points > 0), axis.high, "above"));
}

/** What a row is made of depends on whether anything was scored at all (PickAll and PickFixed score nothing). */
function summaryOf(item, view) {
  const name = h("span", { class: "who" }, item.cluster);
  const last = h("span", { class: "verdict" }, verdictPill(item));
  if (!isScored(item)) return [name, h("span", { class: "refused" }, refusal(item)), last];
  if (!view.scored) return [name, h("span", { class: "words" }, told(item)), last];
  return [
    name,
    bar(item, view.terms, view.axis),
    view.spread ? h("span", { class: "num spread" }, number(item.topology?.score ?? 0)) : null,
    h("span", { class: "num score" }, number(item.affinity?.score ?? 0)),
    last,
  ].filter(Boolean);
}

/** The summary without the name it begins with, which stands before it already. */
function told(item) {
  const words = item.summary || item.reason || "";
  return localTimes(words.startsWith(`${item.cluster}: `) ? words.slice(item.cluster.length + 2) : words);
}

function makeRow() {
  const inside = h("div", { class: "trace" });
  const details = h("details", {}, h("summary", {}), inside);
  details.addEventListener("toggle", () => details.fill?.());
  return h("li", {}, details);
}

function updateRow(row, item, view) {
  const details = row.firstElementChild;
  const [summary, inside] = details.children;
  row.className = isPicked(item) ? "is-picked" : isScored(item) ? "is-loser" : "is-refused";
  if (isNews(summary, [item.verdict, item.topology?.score, isOverLimit(item), item.affinity, item.gap, item.reason, item.summary, view.axis, view.spread])) {
    summary.replaceChildren(...summaryOf(item, view));
  }
  // The inside is only built once someone looks.
  details.fill = () => {
    if (details.open && isNews(inside, item)) inside.replaceChildren(...trace(item, view.terms));
  };
  details.fill();
}

function legend(view) {
  if (!view.scored) return [];
  const entry = (colour, name, rule) => h("li", {}, h("i", { class: `swatch ${colour}` }), h("span", {}, rule ? `${name}, ${rule}` : name));
  return [
    view.spread ? entry("part-spread", "topology spread", "ranks before the score") : null,
    view.over ? entry("over", OVER) : null,
    ...view.terms.map((term) => entry(term.colour, term.name, termRule(term))),
  ].filter(Boolean);
}

/** Which clusters set the range of each sorter, which is what surprises users most. */
function ranges(items, terms) {
  return terms.filter((term) => term.sorter).flatMap((term) => {
    const sorter = items.flatMap((item) => item.affinity?.terms ?? []).find((t) => t.index === term.index && t.sorter?.min && t.sorter?.max)?.sorter;
    if (!sorter) return [];
    const { min, max } = sorter;
    const [low, high] = [min, max].map((limit) => propertyValue(sorter.name, limit.value));
    if (min.cluster === max.cluster || min.value === max.value) {
      return [{ text: [`${term.name} is `, String(low), " wherever it is reported, so it makes no difference between clusters.", "", ""] }];
    }
    const outside = [min, max].filter((limit) => limit.eligible === false).map((limit) => limit.cluster);
    const who = outside.length === 2 ? "neither of them a candidate itself" : outside.length ? `${outside[0]} is not a candidate itself` : "";
    return [{ text: [`${term.name} runs from ${low} (`, min.cluster, `) to ${high} (`, max.cluster, `)${who ? `; ${who}` : ""}.`] }];
  });
}

/** The taint whose toleration alone would let a cluster pass; empty: something else, or more, is missing. */
function missingToleration({ help, filters }) {
  const check = filters?.find((one) => one.name === "taints");
  const taints = new Set((check?.tolerated ?? []).filter((one) => one.by === null).map((one) => one.taint));
  const [taint] = taints;
  return taints.size === 1 && help.includes(` ${taint}`) ? taint : "";
}

/** What would help, one sentence for all clusters it would help; then the ranges. Losers come first, they are nearest. */
function callOut(items, terms, ref) {
  const helps = new Map();
  for (const item of [...items].sort((a, b) => isCandidate(b) - isCandidate(a))) {
    if (!item.help) continue;
    const words = item.help.startsWith(`${item.cluster} `) ? item.help.slice(item.cluster.length + 1) : item.help;
    const known = helps.get(words) ?? { clusters: [], tolerate: missingToleration(item) };
    known.clusters.push(item);
    helps.set(words, known);
  }
  const out = [...helps].slice(0, FIRST_HELPS).map(([words, { clusters, tolerate }]) => {
    const rest = clusters.length - NAMED_CLUSTERS;
    const names = clusters.slice(0, NAMED_CLUSTERS).flatMap((item, index) => [index ? ", " : "", isMember(item) ? h("a", { href: href("cluster", item.cluster) }, item.cluster) : item.cluster]);
    return h("p", {}, h("b", {}, names, rest > 0 ? ` and ${number(rest)} more` : ""), ` ${words}${/[.!?]$/.test(words) ? "" : "."}`,
      ...(tolerate ? [" ", h("a", { href: beside("placement", ref, { tolerate }) }, "Plan this toleration")] : []));
  });
  const others = [...helps.values()].slice(FIRST_HELPS).flatMap(({ clusters }) => clusters).length;
  if (others) out.push(h("p", { class: "quiet" }, others === 1 ? "The suggestion for 1 more cluster is in its row." : `Suggestions for ${count(others, "more cluster")} are in their rows.`));
  const told = new Set(); // two terms may sort by the same property
  for (const { text } of ranges(items, terms)) {
    if (told.has(text.join(""))) continue;
    told.add(text.join(""));
    const [a, low, b, high, c] = text;
    const linked = (name) => (name ? h("b", {}, h("a", { href: href("cluster", name) }, name)) : "");
    out.push(h("p", {}, a, linked(low), b, linked(high), c));
  }
  return out;
}

/** `, picked in 1 round`: how often it was chosen among them; a placement that has all it wants chooses no more. */
function roundsWords({ batches, wanted, found }) {
  if (batches) return `, picked in ${count(batches, "round")}`;
  return wanted === found ? "; it already has all the clusters it wants, so none was evaluated again" : "";
}

/** Counts of verdicts, each with a link to its paragraph. */
function verdicts(counts, separator) {
  return counts.flatMap(([verdict, n], index) => [index ? separator : "", `${number(n)} `, refer(verdict)]);
}

/** What holds for the run as a whole: how many there were, how many it turned away, what it was about. */
function runWords(run) {
  const { snapshot, fleetSize, counts, evaluatedAt } = run;
  const out = [];
  if (fleetSize !== undefined) out.push(`${count(fleetSize, "cluster")} in the fleet${roundsWords(run)}.`);
  const turnedAway = Object.entries(counts ?? {});
  if (turnedAway.length) out.push(["Not picked: ", ...verdicts(turnedAway, ", "), "."]);
  if (snapshot) out.push(`Policy snapshot ${snapshot}.`);
  if (evaluatedAt && out.length) out.push(`Evaluated ${moment(Date.parse(evaluatedAt))}.`);
  return out.flatMap((part, index) => [index ? " " : "", part]).flat();
}

/** Why there was a decision: a line, and all that the API says of it where that is more. */
function triggerWords(trigger) {
  if (!trigger?.message) return [];
  const message = localTimes(trigger.message);
  const short = because(message);
  const line = h("p", {}, `Last decided because: ${short}.`);
  return short === message ? [line] : [line, h("details", {}, h("summary", {}, "In full"), h("p", {}, `${message}.`))];
}

/** The explanation of one placement: keeps what the viewer unfolded between updates. */
export class ExplanationView {
  constructor({ firstRows }) {
    Object.assign(this, { firstRows, all: false, document: null, blob: "" });
    this.head = h("div", { class: "score-head", "aria-hidden": true });
    this.picked = h("ol", { class: "rows", "aria-label": "Picked clusters" });
    this.line = h("p", { class: "wanted" }, h("span", {}));
    this.losers = h("ol", { class: "rows", "aria-label": "Clusters not picked" });
    this.counts = h("p", { class: "quiet counts" });
    this.runWords = h("p", {});
    this.trigger = h("div", {});
    this.run = h("div", { class: "run" }, this.trigger, this.runWords);
    this.more = h("button", { type: "button", class: "more", onclick: () => { this.all = !this.all; this.render(); } });
    this.legend = h("ul", { class: "legend", "aria-label": "Parts of the score" });
    this.callOut = h("div", { class: "callout", role: "note", "aria-label": "Suggestions, and the clusters that set the range" });
    this.json = h("a", { class: "json small", target: "_blank", rel: "noopener" }, "explanation as JSON");
    this.element = h("section", { class: "explanation", "aria-label": "Why these clusters" },
      this.head, this.picked, this.line, this.losers, this.counts, this.more, this.legend, this.callOut, this.run, h("p", { class: "foot" }, this.json));
  }

  /** Show the answer of `POST /v1/explain`, given parsed and as the text that came. */
  show(document, text, ref) {
    this.document = document;
    this.ref = ref;
    if (this.text !== text) {
      URL.revokeObjectURL(this.blob);
      this.blob = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      this.json.href = this.blob;
      this.text = text;
    }
    this.render();
  }

  /** Forget what was unfolded: another placement is selected. */
  reset() {
    this.document = null;
    this.text = null;
    this.all = false;
    for (const list of [this.picked, this.losers]) patchList(list, [], (item) => item.cluster);
  }

  render() {
    const doc = this.document;
    if (!doc) return;
    const items = doc.items;
    const terms = termsOf(items);
    const spread = hasSpread(items);
    const scored = terms.length > 0 || spread;
    const over = items.some(isOverLimit);
    const view = { terms, spread, over, scored, axis: axisOf(items.filter(isScored), terms) };
    const picked = items.filter(isPicked);
    const others = items.filter((item) => !isPicked(item));
    const limit = this.firstRows();
    const cutPicked = this.all ? picked : picked.slice(0, limit * 2);
    const cutOthers = this.all ? others : others.slice(0, limit);
    this.element.classList.toggle("with-spread", spread);
    this.element.classList.toggle("unscored", !scored);
    this.element.classList.toggle("all", this.all);
    if (isNews(this.head, [spread, scored])) {
      this.head.hidden = !scored;
      this.head.replaceChildren(...["", "", spread ? "spread" : null, "score", ""].filter((t) => t !== null).map((t) => h("span", {}, t)));
    }
    patchList(this.picked, cutPicked, (i) => i.cluster, makeRow, (row, i) => updateRow(row, i, view));
    patchList(this.losers, cutOthers, (i) => i.cluster, makeRow, (row, i) => updateRow(row, i, view));
    this.picked.hidden = !picked.length;
    this.losers.hidden = !others.length;

    const wanted = doc.wanted === null || doc.wanted === undefined ? "wanted: every cluster that passes" : `wanted ${number(doc.wanted)}`;
    const found = doc.found !== undefined && doc.found !== null && doc.found !== doc.wanted && doc.wanted !== null ? `, found ${number(doc.found)}` : "";
    say(this.line.firstElementChild, wanted + found);

    const reasons = tally(others, (item) => item.verdict, ["NotNeeded", "ScoreTooLow"]);
    this.counts.hidden = others.length <= limit;
    if (isNews(this.counts, reasons)) this.counts.replaceChildren(`${number(others.length)} not picked: `, ...verdicts(reasons, " · "));
    const hidden = picked.length - cutPicked.length + others.length - cutOthers.length;
    this.more.hidden = hidden === 0 && !this.all;
    say(this.more, this.all ? "Show only the first" : `Show all ${number(items.length)} clusters`);
    this.more.setAttribute("aria-expanded", String(this.all));
    if (isNews(this.legend, [terms, spread, over])) this.legend.replaceChildren(...legend(view));
    this.legend.hidden = !scored;
    if (isNews(this.runWords, [doc.snapshot, doc.fleetSize, doc.counts, doc.evaluatedAt, doc.batches])) this.runWords.replaceChildren(...runWords(doc));
    if (isNews(this.trigger, doc.trigger)) this.trigger.replaceChildren(...triggerWords(doc.trigger));
    this.run.hidden = !this.run.textContent;
    const helps = callOut(items, terms, this.ref);
    this.callOut.hidden = !helps.length;
    if (isNews(this.callOut, [this.ref, helps.map((p) => p.textContent)])) this.callOut.replaceChildren(...helps);
  }
}
