/** Every number behind one cluster's verdict: the checks it went through and the points of each term. */

import { href } from "./address.js";
import { h } from "./dom.js";
import { cores, label, number, shortName } from "./format.js";
import { refer } from "./reference.js";
import { pointsOf, termRule } from "./terms.js";
import { localTimes, moment } from "./zone.js";

const OPERATORS = { Ge: "≥", Gt: ">", Le: "≤", Lt: "<", Eq: "=", Ne: "≠" };
const PLAIN = new Set(["name", "pass", "reason", "message"]);

/** `observed 4 (41s old), wanted ≥ 5`. */
function comparison(property) {
  return `${shortName(property.name)}: ${reading(property, "observed ")}, wanted ${OPERATORS[property.op] ?? property.op ?? ""} ${exact(property.name, property.want ?? "")}`;
}

/** A value as it was compared: CPU in cores, so that `850m` and `1` do not stand beside each other. */
const exact = (name, value) => (/cpu$/.test(name) ? cores(value, 3) : value);

/** `0.048 (41s old)`; absent, expired and unreadable values are told apart, and an old one is called old. */
function reading({ name, observed, age, unreadable, stale, expired, lastValue, expiredFor, expiresIn, validUntil }, before = "") {
  if (expired) return `${exact(name, lastValue)} expired ${expiredFor} ago (${moment(Date.parse(validUntil))})`;
  if (observed === null || observed === undefined) return "not reported";
  const valid = expiresIn ? `valid for ${expiresIn} (until ${moment(Date.parse(validUntil))})` : "";
  const notes = [unreadable ? "unreadable" : "", age ? `${age} old` : "", stale ? "out of date" : "", valid].filter(Boolean);
  return `${before}${exact(name, observed)}${notes.length ? ` (${notes.join(", ")})` : ""}`;
}

/** `env: is dev, wanted In prod`. */
function expression({ key, op, want, observed }) {
  const values = (want ?? []).join(", ");
  return `${shortName(key)}: ${observed === null || observed === undefined ? "absent" : `is ${observed}`}, wanted ${op} ${values}`.trim();
}

function termWords(term) {
  const out = [];
  if (term.labels?.expressions?.length) out.push(...term.labels.expressions.map(expression));
  else if (term.labels) out.push(`labels ${term.labels.pass ? "match" : "do not match"}`);
  for (const property of term.properties ?? []) out.push(comparison(property));
  return `term ${term.index + 1} ${term.match ? "matches" : "does not match"}${out.length ? `: ${out.join("; ")}` : ""}`;
}

/** A value the page has no words for, still readable. */
function plain(value) {
  if (Array.isArray(value)) return value.map(plain).join("; ");
  if (value && typeof value === "object") return Object.entries(value).map(([key, inner]) => `${key} ${plain(inner)}`).join(", ");
  return String(value);
}

/** The numbers of one check in words. */
export function checkWords(check) {
  const out = [];
  if (check.message ?? check.reason) out.push(check.message ?? check.reason);
  for (const [key, value] of Object.entries(check)) {
    if (PLAIN.has(key) || value === "True" || value === null || value === "" || (Array.isArray(value) && !value.length)) continue;
    if (key === "terms" && Array.isArray(value)) out.push(...value.map(termWords));
    else if (key === "heartbeatAge") out.push(`last heartbeat ${value} ago`);
    else if (key === "tolerated" && Array.isArray(value)) out.push(...value.map((one) => `${one.taint ?? plain(one)} ${one.by === null ? "not tolerated" : `tolerated by tolerations[${one.by}]`}`));
    else out.push(`${key} ${plain(value)}`);
  }
  return localTimes(out.join("; "));
}

function checks(item) {
  if (!item.filters?.length) return null;
  return h("ul", { class: "checks" }, item.filters.map((check) =>
    h("li", { class: check.pass ? "pass" : "fail" },
      h("span", { class: "check-mark", "aria-hidden": true }, check.pass ? "✓" : "✕"),
      h("span", {}, h("b", {}, check.name), check.pass ? h("span", { class: "unseen" }, " passed") : h("span", { class: "unseen" }, " failed"),
        checkWords(check) ? `: ${checkWords(check)}` : ""))));
}

function end(name, limit) {
  if (!limit) return "–";
  const notes = [limit.cluster, limit.eligible === false ? "not a candidate" : "", limit.age ? `${limit.age} old` : "", limit.stale ? "out of date" : ""];
  return `${exact(name, limit.value)} (${notes.filter(Boolean).join(", ")})`;
}

/** `0.622222 of 20 is 12.444444`: what stands behind the points before they are rounded. */
function share({ weight, sorter }, gate) {
  if (!sorter || sorter.raw === undefined || sorter.raw === null) return "";
  return `${number(sorter.ratio, 6)} of ${number(weight)} ${gate ? "would be" : "is"} ${number(sorter.raw, 6)}`;
}

function points(item, terms) {
  const own = item.affinity?.terms ?? [];
  const constraints = item.topology?.constraints ?? [];
  if (!own.length && !constraints.length) return null;
  const byIndex = new Map(terms.map((term) => [term.index, term]));
  return h("ul", { class: "points" },
    constraints.map((c) => h("li", {},
      h("i", { class: "swatch part-spread" }),
      h("span", {}, h("b", {}, `spread over ${label(c.key)}`),
        c.domain === null || c.domain === undefined
          ? ": outside the spread"
          : `: ${c.domain} would change the skew of ${number(c.skew)} by ${number(c.change)}${c.maxSkew === undefined ? "" : `, at most ${number(c.maxSkew)}`}`
            + `${c.violated ? ", so the limit is exceeded" : ""}${c.counts ? `; now ${plain(c.counts)}` : ""}`),
      h("span", { class: "gained" }, number(c.points ?? 0)))),
    own.map((term) => {
      const { name, colour } = byIndex.get(term.index) ?? { name: `preference ${term.index + 1}`, colour: "part-0" };
      const s = term.sorter;
      const gate = term.labels && !term.labels.pass ? "labels do not match" : "";
      const observed = s && reading(s);
      const range = s && s.min && s.max ? `, range ${end(s.name, s.min)} to ${end(s.name, s.max)}` : "";
      const words = [gate, s ? `${observed}${range}` : "", localTimes(s?.note ?? ""), share(term, gate)].filter(Boolean).join("; ");
      return h("li", {},
        h("i", { class: `swatch ${colour}` }),
        h("span", {}, h("b", {}, `${name}, ${termRule(term)}`), words ? `: ${words}` : ""),
        h("span", { class: "gained" }, number(pointsOf(term))));
    }));
}

/** What a cluster that holds the placement was picked with, and whether it still would be. */
function binding({ name, state, snapshot, since, age, recordedScore, wouldStillMatch, wouldBeRefused, currentPolicy, dropped }) {
  const out = [`Binding ${name ?? ""} ${state ?? ""}${currentPolicy === false ? " under an earlier policy" : ""}`.trim()];
  if (snapshot) out.push(`created under ${snapshot}`);
  if (since) out.push(`since ${moment(Date.parse(since))}${age ? ` (${age} ago)` : ""}`);
  if (recordedScore) out.push(`picked with ${number(recordedScore.affinity)} points, spread ${number(recordedScore.topologySpread)}`);
  if (wouldBeRefused) out.push(`would be refused today: ${localTimes(wouldBeRefused)}`);
  else if (wouldStillMatch) out.push("still passes every check");
  if (dropped) out.push("is being dropped");
  return `${out.join("; ")}.`;
}

const KEYS = { topologySpread: "topology spread", affinity: "affinity", tieBonus: "the tie bonus" };

/** `Verdict ScoreTooLow, rank 4, batch 1; affinity −4 against genoa.` */
function verdict({ verdict: word, rank, batch, gap }) {
  const numbers = [rank ? `rank ${number(rank)}` : "", batch ? `batch ${number(batch)}` : ""].filter(Boolean);
  let words = numbers.map((one) => `, ${one}`).join("");
  if (gap) words += gap.decidedBy === "name" ? `; tied with ${gap.toLastPicked}, which wins by name order` : `; ${KEYS[gap.decidedBy] ?? gap.decidedBy} ${number(gap.difference)} against ${gap.toLastPicked}`;
  return ["Verdict ", refer(word), `${words}.`];
}

/** Whether the cluster of an item exists, so that a link leads to it. */
export const isMember = ({ verdict: word }) => word !== "TargetNotFound";

/** The unfolded part of a row. */
export function trace(item, terms) {
  const sentences = [item.summary, item.tieBonus ? "It already has this placement, which wins ties" : "", item.help ? `It ${item.help}` : ""];
  return [
    h("p", {}, localTimes(sentences.filter(Boolean).map((one) => (/[.!?]$/.test(one) ? one : `${one}.`)).join(" "))),
    ...(item.warnings ?? []).map((words) => h("p", {}, h("b", {}, "Warning: "), `${localTimes(words)}.`)),
    item.binding ? h("p", {}, binding(item.binding)) : null,
    points(item, terms),
    checks(item),
    h("p", { class: "quiet" }, ...(item.verdict ? [...verdict(item), " "] : []), isMember(item) ? h("a", { href: href("cluster", item.cluster) }, `Show ${item.cluster}`) : null),
  ].filter(Boolean);
}
