/**
 * What the next release of a placement changes, cluster by cluster: the answer of `/v1/render`. Nothing is written.
 *
 * Clusters with equal changes are one group. The server hides the values of Secrets.
 */

import { ask } from "./api.js";
import { h } from "./dom.js";
import { count, number } from "./format.js";

const NAMED = 12;
const MOST_GROUPS = 50;
const MOST_OBJECTS = 100;
const MOST_LINES = 500;
const SIGNS = { Added: "+", Removed: "−", Changed: "~" };
const TONES = { "+": "gained", "-": "lost" };

const some = (names) => (names.length > NAMED ? `${names.slice(0, NAMED).join(", ")} and ${number(names.length - NAMED)} more` : names.join(", "));

function lines(diff) {
  const shown = diff.slice(0, MOST_LINES).map((line) => h("span", { class: `line ${TONES[line[0]] ?? ""}` }, `${line}\n`));
  return diff.length > MOST_LINES ? [...shown, h("span", { class: "line" }, `… and ${number(diff.length - MOST_LINES)} more lines`)] : shown;
}

function changedObject(object) {
  const name = object.namespace ? `${object.namespace}/${object.name}` : object.name;
  const title = `${object.kind} ${name}`;
  return h("li", {}, h("details", {},
    h("summary", {}, h("span", { "aria-hidden": true }, `${SIGNS[object.change]} `), h("span", { class: "unseen" }, `${object.change}: `), title),
    h("pre", { class: "yaml diff", tabindex: 0, role: "region", "aria-label": `Difference of ${title}` }, h("code", {}, lines(object.diff)))));
}

function groupOf({ clusters, objects, unchanged }) {
  const rest = objects.length - MOST_OBJECTS;
  return h("li", {},
    h("p", {}, h("b", {}, count(clusters.length, "cluster")), `: ${some(clusters)}`),
    h("ul", { class: "objects" }, objects.slice(0, MOST_OBJECTS).map(changedObject),
      rest > 0 ? h("li", { class: "quiet" }, `and ${number(rest)} more`) : null),
    unchanged ? h("p", { class: "detail" }, `${count(unchanged, "object")} unchanged`) : null);
}

/** What would change on the clusters of a placement if everything were rolled out. */
export async function releaseOf({ kind, namespace, name }) {
  const { document } = await ask("/v1/render", { body: { placements: [namespace ? { kind, namespace, name } : { kind, name }] } });
  const entry = document.placements[0];
  if (!entry || entry.hidden) return [h("p", { class: "quiet" }, "You may not list the snapshots of resources and overrides, which hold the objects.")];
  const rest = entry.groups.length - MOST_GROUPS;
  return [
    entry.message ? h("p", { class: "callout warn" }, entry.message) : null,
    ...entry.failures.slice(0, NAMED).map((one) => h("p", { class: "callout bad" }, `${one.cluster}: ${one.message}`)),
    entry.unknown.length ? h("p", { class: "detail" }, `The present objects of ${some(entry.unknown)} are unknown, so all objects count as added.`) : null,
    entry.uncertain ? h("p", { class: "detail" }, "The selectors change, and may select objects that are not known.") : null,
    entry.groups.length ? h("ul", { class: "release" }, entry.groups.slice(0, MOST_GROUPS).map(groupOf)) : null,
    rest > 0 ? h("p", { class: "quiet" }, `and ${number(rest)} more groups of clusters`) : null,
    entry.groups.length || entry.failures.length || entry.message ? null : h("p", { class: "quiet" }, "Every cluster has what would be released now."),
  ].filter(Boolean);
}
