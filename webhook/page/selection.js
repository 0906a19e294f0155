/** Searching, filtering, sorting and grouping of what has been read: plain functions of lists. */

import { byName } from "./format.js";

/** The words of a search, in lower case. */
export const terms = (text) => (text ?? "").toLowerCase().split(/\s+/).filter(Boolean);

/** Whether a text has all of the words. */
export const hasAll = (text, words) => words.every((word) => text.includes(word));

/**
 * A test of labels from what a reader writes: `env=prod`, `env!=prod`, `env` (there is one), `!env`; several with blanks or
 * commas between them.
 */
export function labelTest(text) {
  const tests = (text ?? "").split(/[\s,]+/).filter(Boolean).map((one) => {
    const [, key, operator, value] = /^([^=!]+)(!?=)(.*)$/s.exec(one) ?? [];
    if (operator === "=") return (labels) => labels[key] === value;
    if (operator) return (labels) => labels[key] !== value;
    return one.startsWith("!") ? (labels) => !(one.slice(1) in labels) : (labels) => one in labels;
  });
  return (labels) => tests.every((test) => test(labels ?? {}));
}

/** Every label key with the number of its values, those that tell most apart first: `[["env", 3], …]`. */
export function labelKeys(items) {
  const values = new Map();
  for (const { labels } of items) {
    for (const [key, value] of Object.entries(labels ?? {})) values.set(key, (values.get(key) ?? new Set()).add(value));
  }
  return [...values].map(([key, found]) => [key, found.size]).sort(([a], [b]) => byName(a, b));
}

const MOST_VALUES = 30; // of one key: names that are labels as well are no help

/** `env=prod` and the like, to be offered to who filters. */
export function labelPairs(items) {
  const few = new Set(labelKeys(items).filter(([, number]) => number <= MOST_VALUES).map(([key]) => key));
  const found = new Set();
  for (const { labels } of items) {
    for (const [key, value] of Object.entries(labels ?? {})) if (few.has(key)) found.add(`${key}=${value}`);
  }
  return [...found].sort(byName);
}

/** Sort by what `keys` has for a name: `nodes`, or `-nodes` for the reverse. What has no value comes last. */
export function sorted(items, by, keys) {
  const backwards = by.startsWith("-");
  const key = keys[backwards ? by.slice(1) : by];
  if (!key) return items;
  const missing = (value) => value === null || value === undefined || value === "" || Number.isNaN(value);
  const valued = items.map((item) => [key(item), item]);
  return valued.sort(([a], [b]) => {
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    const order = typeof a === "string" && typeof b === "string" ? byName(a, b) : a < b ? -1 : Number(a > b);
    return backwards ? -order : order;
  }).map(([, item]) => item);
}

/** Group by what `valueOf` says, by value, those without one last: `[["prod", [item, …]], …]`. */
export function grouped(items, valueOf) {
  const groups = new Map();
  for (const item of items) {
    const value = valueOf(item) ?? "";
    if (!groups.has(value)) groups.set(value, []);
    groups.get(value).push(item);
  }
  return [...groups].sort(([a], [b]) => (a === "") - (b === "") || byName(a, b));
}
