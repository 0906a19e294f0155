/** What the points of a placement are made of: the topology spread and one part per preference term. */

import { number, shortName } from "./format.js";

const COLOURS = 9; // .part-0 … .part-8 in style.css

/** The sorter, weight and colour of every preference term that occurs in the items of an explanation. */
export function termsOf(items) {
  const terms = new Map();
  for (const item of items) {
    for (const term of item.affinity?.terms ?? []) {
      const known = terms.get(term.index);
      if (!known || (!known.sorter && term.sorter)) terms.set(term.index, { index: term.index, weight: term.weight, sorter: term.sorter ?? null });
    }
  }
  return [...terms.values()].sort((a, b) => a.index - b.index).map((term, place) => ({ ...term, colour: `part-${place % COLOURS}`, name: termName(term) }));
}

function termName(term) {
  return term.sorter ? shortName(term.sorter.name) : `labels of preference ${term.index + 1}`;
}

/** `most first × 50`: which end of the range earns the weight. */
export function termRule(term) {
  const end = { Descending: "most first ", Ascending: "least first " }[term.sorter?.order] ?? "";
  return `${end}× ${number(term.weight)}`;
}

/** Points a cluster has from one term: `points` stands in the sorter, or in the term when it has none. */
export function pointsOf(term) {
  return Number(term.sorter?.points ?? term.points ?? (term.sorter ? 0 : term.labels?.pass ? term.weight : 0));
}

/** Whether a spread over a topology took part in the scores. */
export function hasSpread(items) {
  return items.some((item) => item.topology?.constraints?.length || item.topology?.score);
}

const BROKEN = (constraint) => constraint.violated && constraint.points < 0;

/** Whether the limit of a soft spread constraint would be exceeded there: worth −1,000, which is no amount of skew. */
export function isOverLimit(item) {
  return (item.topology?.constraints ?? []).some(BROKEN);
}

/** The points of the spread without those that stand for exceeded limits. */
function evenness(item) {
  const lost = (item.topology?.constraints ?? []).filter(BROKEN).reduce((total, constraint) => total + constraint.points, 0);
  return Number(item.topology?.score ?? 0) - lost;
}

/** The parts of one cluster's score, in the order of the legend; parts of no points are left out, and exceeded limits. */
export function partsOf(item, terms) {
  const parts = [{ name: "topology spread", points: evenness(item), colour: "part-spread" }];
  const own = new Map((item.affinity?.terms ?? []).map((term) => [term.index, pointsOf(term)]));
  for (const term of terms) parts.push({ name: term.name, points: own.get(term.index) ?? 0, colour: term.colour });
  return parts.filter((part) => part.points !== 0);
}

const sum = (parts) => parts.reduce((total, part) => total + part.length, 0);

/**
 * The ends of the axis all bars share: what can be reached at best, or was reached if that is more.
 *
 * A bar of full length is the whole of the positive weights, so that the emptiness of a bar says something too.
 */
export function axisOf(items, terms) {
  const spread = spreadScale(items, terms);
  const all = items.map((item) => lengthsOf(item, terms, spread));
  const reachable = terms.reduce((total, term) => total + Math.max(0, term.weight), 0);
  const high = Math.max(1, reachable, ...all.map((parts) => sum(parts.filter((p) => p.points > 0))));
  const low = Math.min(0, ...all.map((parts) => -sum(parts.filter((p) => p.points < 0))));
  return { low, high, spread };
}

/**
 * How long one point of spread is drawn.
 *
 * The spread ranks before the score and is no part of its sum: a skew of 1 says nothing beside 50 points for cost.
 * So the largest spread takes an eighth of what the terms can reach.
 */
function spreadScale(items, terms) {
  const largest = Math.max(0, ...items.map((item) => Math.abs(evenness(item))));
  const reachable = terms.reduce((total, term) => total + Math.abs(term.weight), 0);
  return largest && reachable ? reachable / 8 / largest : 1;
}

/** The parts of a cluster's score with the length each is drawn in. */
export function lengthsOf(item, terms, spread) {
  return partsOf(item, terms).map((part) => ({ ...part, length: Math.abs(part.points) * (part.colour === "part-spread" ? spread : 1) }));
}
