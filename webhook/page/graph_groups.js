/** The nodes of a column of the graph: grouped by state, the worst first, folded where there are too many. */

import { grouped } from "./selection.js";

const ROWS = 12; // of a column before anything is unfolded
const PAGE = 50; // members of an unfolded group

const CLUSTER_ORDER = ["failed", "applying", "waiting", "removing", "removal pending", "reported", "available"];
const OBJECT_ORDER = ["failed", "not yet", "waiting", "differs", "drifted", "applied", "same", "available"];
const AT_REST = new Set(["available", "reported", "applied", "same"]);

/** The state of an object: of one at rest, whether its fields differ on the member. */
export function stateOf(object) {
  return AT_REST.has(object.state) && object.drifts?.length ? "drifted" : object.state;
}

/** Clusters in the order of the column: the worst state first, then equal reasons side by side, then names. */
export function clusterGroups(clusters, options) {
  const sorted = [...clusters].sort((a, b) => compare(a.detail ?? "", b.detail ?? "") || compare(a.cluster, b.cluster));
  return folded(sorted, { ...options, order: CLUSTER_ORDER, state: (one) => one.state, key: (one) => one.cluster });
}

/** Objects in the order of the column; those of equal states stay in the order of the answer. */
export function objectGroups(objects, options) {
  return folded(objects, { ...options, order: OBJECT_ORDER, state: stateOf, key: objectKey });
}

/** A key of an object on one cluster. */
export function objectKey({ group = "", kind, namespace = "", name, envelope }) {
  return [group, kind, namespace, name, envelope?.name ?? ""].join("/");
}

/** What the address says about groups: `available,-failed` → available is unfolded, failed is folded. */
export function choices(text) {
  return new Map((text ?? "").split(",").filter(Boolean).map((word) => [word.replace(/^-/, ""), !word.startsWith("-")]));
}

/** The same as a parameter, with one group changed. */
export function chosen(text, state, isOpen) {
  const all = choices(text);
  all.delete(state);
  all.set(state, isOpen);
  return [...all].map(([word, open]) => (open ? word : `-${word}`)).join(",");
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/**
 * Groups, each with the members that are shown: `{ state, items, shown, isOpen, hidden }`.
 *
 * Without a choice, groups with problems show as many members as there is room for, and groups at rest all of them or
 * none. The selected member is always shown.
 */
function folded(items, { order, state, key, choice, limits, selected = "" }) {
  const place = (one) => (order.includes(one) ? order.indexOf(one) : order.indexOf("waiting"));
  const groups = grouped(items, state).sort(([a], [b]) => place(a) - place(b) || compare(a, b));
  let room = ROWS - groups.length;
  return groups.map(([name, members]) => {
    const wish = choice.get(name);
    const isOpen = wish ?? (members.length <= room || (room > 0 && !AT_REST.has(name)));
    const most = !isOpen ? 0 : limits.get(name) ?? (wish ? PAGE : room);
    const shown = members.filter((one, index) => index < most || key(one) === selected);
    room = Math.max(0, room - shown.length);
    return { state: name, items: members, shown, isOpen, hidden: members.length - shown.length, next: most + PAGE };
  });
}
