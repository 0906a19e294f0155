/**
 * What the next release of a placement changes, cluster by cluster: the answer of `/v1/render`. Nothing is written.
 *
 * Clusters with equal changes are one group. The server hides the values of Secrets.
 */

import { href } from "./address.js";
import { ask } from "./api.js";
import { h } from "./dom.js";
import { count, number } from "./format.js";
import { grouped } from "./selection.js";

const NAMED = 12;
const MOST_GROUPS = 50;
const MOST_OBJECTS = 100;
const FIRST_LINES = 40; // of a difference, until the rest is wanted
const MOST_LINES = 500;
const OPEN_LINES = 60; // of all differences of a group, which are then unfolded
const OPEN_IN_DIALOG = 12; // so that its buttons stay in sight
const SIGNS = { Added: "+", Removed: "−", Changed: "~" };
const TONES = { "+": "gained", "-": "lost", "@": "hunk" };

const unfolded = new Map(); // what a reader has unfolded or folded, so that reading again keeps it
const MOST_KEPT = 500;

function keep(key, value) {
  unfolded.delete(key);
  unfolded.set(key, value);
  if (unfolded.size > MOST_KEPT) unfolded.delete(unfolded.keys().next().value);
}

const linked = (names) => names.flatMap((name, index) => [index ? ", " : "", h("a", { href: href("cluster", name) }, name)]);

/** Names of clusters as links; of many, the first. */
function some(names) {
  const rest = names.length - NAMED;
  return [...linked(names.slice(0, NAMED)), ...(rest > 0 ? [` and ${number(rest)} more`] : [])];
}

const line = (text) => h("span", { class: `line ${TONES[text[0]] ?? ""}` }, `${text}\n`);

/** The lines of a difference: the first, and a button for the others. */
function fill(code, diff, key) {
  const most = unfolded.get(key) ? MOST_LINES : FIRST_LINES;
  const shown = diff.length <= FIRST_LINES + 3 ? diff : diff.slice(0, most);
  const rest = diff.length - shown.length;
  code.replaceChildren(...shown.map(line));
  if (!rest) return null;
  if (unfolded.get(key)) {
    code.append(h("span", { class: "line" }, `… and ${count(rest, "more line")}`));
    return null;
  }
  const button = h("button", { type: "button", class: "plain-button", onclick: () => {
    keep(key, true);
    button.remove();
    fill(code, diff, key);
    code.parentElement.focus();
  } }, `Show ${count(rest, "more line")}`);
  return button;
}

/** `+25 −3`: added and removed lines. */
function amounts(diff) {
  const amount = (sign) => diff.filter((text) => text[0] === sign).length;
  const [added, removed] = [amount("+"), amount("-")];
  return [
    added ? h("span", { class: "gained" }, `+${number(added)}`, h("span", { class: "unseen" }, ` line${added === 1 ? "" : "s"} added`)) : null,
    removed ? h("span", { class: "lost" }, `−${number(removed)}`, h("span", { class: "unseen" }, ` line${removed === 1 ? "" : "s"} removed`)) : null,
  ].filter(Boolean);
}

function changedObject(object, { path, place, isOpen }) {
  const name = object.namespace ? `${object.namespace}/${object.name}` : object.name;
  const title = `${object.kind} ${name}`;
  const key = `${path}/${title}`;
  const code = h("code");
  const rest = fill(code, object.diff, `${key}/lines`);
  const details = h("details", { open: unfolded.get(key) ?? isOpen },
    h("summary", {}, h("span", { class: `change ${object.change.toLowerCase()}` }, h("span", { "aria-hidden": true }, `${SIGNS[object.change]} `), object.change.toLowerCase()), " ",
      h("span", {}, title), " ", h("span", { class: "amounts" }, amounts(object.diff))),
    h("pre", { class: "yaml diff", tabindex: 0, role: "region", "aria-label": `Difference of ${title} on ${place}` }, code), rest);
  details.firstElementChild.addEventListener("click", () => keep(key, !details.open));
  return h("li", {}, details);
}

/** `All 8 clusters`, `4 of 7 clusters`. */
function groupName(amount, all) {
  if (amount >= all) return all === 1 ? "The only cluster" : `All ${count(all, "cluster")}`;
  return `${number(amount)} of ${count(all, "cluster")}`;
}

function groupOf({ clusters, objects, unchanged }, ref, all, openLines) {
  const rest = objects.length - MOST_OBJECTS;
  const place = clusters.length > 1 ? `${clusters[0]} and ${number(clusters.length - 1)} more` : clusters[0];
  const isOpen = objects.reduce((total, one) => total + one.diff.length, 0) <= openLines;
  return h("li", {},
    h("p", {}, h("b", {}, groupName(clusters.length, all)), ": ", some(clusters)),
    h("ul", { class: "objects" }, objects.slice(0, MOST_OBJECTS).map((object) => changedObject(object, { path: `${ref}/${clusters[0]}`, place, isOpen })),
      rest > 0 ? h("li", { class: "quiet" }, `and ${number(rest)} more`) : null),
    unchanged ? h("p", { class: "detail" }, `${count(unchanged, "object")} unchanged`) : null);
}

/** What would change on the clusters of a placement if everything were rolled out. */
export async function releaseOf({ ref, kind, namespace, name, clusters }) {
  const { document } = await ask("/v1/render", { body: { placements: [namespace ? { kind, namespace, name } : { kind, name }] } });
  return changes(document.placements[0], ref, clusters.length, OPEN_LINES, "Every cluster has what would be released now.");
}

/** What a staged update run changes on some of its clusters. */
export async function changesOfRun({ namespace = "", name }, clusters) {
  const { document } = await ask("/v1/render", { body: { run: namespace ? { namespace, name } : { name }, clusters } });
  return changes(document.placements[0], `run ${namespace}/${name}`, clusters.length, OPEN_IN_DIALOG, "The content of these clusters does not change.");
}

function changes(entry, path, all, openLines, nothing) {
  if (!entry || entry.hidden) return [h("p", { class: "quiet" }, "You may not list the snapshots of resources and overrides, which hold the objects.")];
  const rest = entry.groups.length - MOST_GROUPS;
  const failures = grouped(entry.failures, (one) => one.message);
  return [
    entry.message ? h("p", { class: "callout warn" }, entry.message) : null,
    ...failures.slice(0, NAMED).map(([message, clusters]) => h("p", { class: "callout bad" }, some(clusters.map((one) => one.cluster)), `: ${message}`)),
    failures.length > NAMED ? h("p", { class: "quiet" }, `and ${count(failures.length - NAMED, "more message")}`) : null,
    entry.unknown.length ? h("p", { class: "detail" }, "The present objects of ", some(entry.unknown), " are unknown, so all objects count as added.") : null,
    entry.uncertain ? h("p", { class: "detail" }, "The selectors change, and may select objects that this plan cannot see.") : null,
    entry.groups.length ? h("ul", { class: "release" }, entry.groups.slice(0, MOST_GROUPS).map((group) => groupOf(group, path, Math.max(all, group.clusters.length), openLines))) : null,
    rest > 0 ? h("p", { class: "quiet" }, `and ${count(rest, "more group")} of clusters`) : null,
    entry.groups.length || entry.failures.length || entry.message ? null : h("p", { class: "quiet" }, nothing),
  ].filter(Boolean);
}
