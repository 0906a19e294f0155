/** Every number behind one cluster's verdict: the checks it went through and the points of each term. */

import { h } from "./dom.js";
import { label, number, shortName } from "./format.js";
import { pointsOf, termRule } from "./terms.js";

const OPERATORS = { Ge: "≥", Gt: ">", Le: "≤", Lt: "<", Eq: "=", Ne: "≠" };
const PLAIN = new Set(["name", "pass", "reason", "message"]);

/** `observed 4 (41s old), wanted ≥ 5`. */
function comparison(property) {
  return `${shortName(property.name)}: ${reading(property, "observed ")}, wanted ${OPERATORS[property.op] ?? property.op ?? ""} ${property.want ?? ""}`;
}

/** `0.048 (41s old)`; absent and unreadable values are told apart, and an old one is called old. */
function reading({ observed, age, unreadable, stale }, before = "") {
  if (observed === null || observed === undefined) return "not reported";
  const notes = [unreadable ? "unreadable" : "", age ? `${age} old` : "", stale ? "out of date" : ""].filter(Boolean);
  return `${before}${observed}${notes.length ? ` (${notes.join(", ")})` : ""}`;
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
    else if (key === "tolerated" && Array.isArray(value)) out.push(...value.map((one) => `${one.taint ?? plain(one)} ${one.by === null ? "not " : ""}tolerated`));
    else out.push(`${key} ${plain(value)}`);
  }
  return out.join("; ");
}

function checks(item) {
  if (!item.filters?.length) return null;
  return h("ul", { class: "checks" }, item.filters.map((check) =>
    h("li", { class: check.pass ? "pass" : "fail" },
      h("span", { class: "check-mark", "aria-hidden": true }, check.pass ? "✓" : "✕"),
      h("span", {}, h("b", {}, check.name), check.pass ? h("span", { class: "unseen" }, " passed") : h("span", { class: "unseen" }, " failed"),
        checkWords(check) ? `: ${checkWords(check)}` : ""))));
}

function end(limit) {
  if (!limit) return "–";
  return `${limit.value} (${limit.cluster}${limit.eligible === false ? ", not a candidate" : ""})`;
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
            + `${c.counts ? `; now ${plain(c.counts)}` : ""}`),
      h("span", { class: "gained" }, number(c.points ?? 0)))),
    own.map((term) => {
      const { name, colour } = byIndex.get(term.index) ?? { name: `preference ${term.index + 1}`, colour: "part-0" };
      const s = term.sorter;
      const gate = term.labels && !term.labels.pass ? "labels do not match" : "";
      const observed = s && reading(s);
      const range = s && s.min && s.max ? `, range ${end(s.min)} to ${end(s.max)}` : "";
      const words = [gate, s ? `${observed}${range}` : "", s?.note ?? "", s && !gate && s.raw !== undefined && s.raw !== null ? `${number(s.raw, 3)} before rounding` : ""].filter(Boolean).join("; ");
      return h("li", {},
        h("i", { class: `swatch ${colour}` }),
        h("span", {}, h("b", {}, `${name}, ${termRule(term)}`), words ? `: ${words}` : ""),
        h("span", { class: "gained" }, number(pointsOf(term))));
    }));
}

/** What a cluster that holds the placement was picked with, and whether it still would be. */
function binding({ state, recordedScore, wouldStillMatch, wouldBeRefused, currentPolicy }) {
  const out = [`Binding ${state ?? ""}${currentPolicy === false ? " under an earlier policy" : ""}`.trim()];
  if (recordedScore) out.push(`picked with ${number(recordedScore.affinity)} points, spread ${number(recordedScore.topologySpread)}`);
  if (wouldBeRefused) out.push(`would be refused today: ${wouldBeRefused}`);
  else if (wouldStillMatch) out.push("still passes every check");
  return `${out.join("; ")}.`;
}

/** The unfolded part of a row. */
export function trace(item, terms) {
  const sentences = [item.summary, item.tieBonus ? "It holds this placement already, which wins a tie" : "", item.help ? `It ${item.help}` : ""];
  return [
    h("p", {}, sentences.filter(Boolean).map((one) => (/[.!?]$/.test(one) ? one : `${one}.`)).join(" ")),
    item.binding ? h("p", {}, binding(item.binding)) : null,
    points(item, terms),
    checks(item),
    item.verdict ? h("p", { class: "quiet" }, `Verdict ${item.verdict}${item.batch !== undefined && item.batch !== null ? `, batch ${number(item.batch)}` : ""}.`) : null,
  ].filter(Boolean);
}
