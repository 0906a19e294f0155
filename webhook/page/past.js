/** What lies behind and below a placement, read when it is unfolded: earlier decisions, its objects on a cluster, its YAML. */

import { timelineOf } from "./address.js";
import { ask, askText, placementPath } from "./api.js";
import { ticking } from "./clock.js";
import { h } from "./dom.js";
import { count, number } from "./format.js";
import { pillOf, refer } from "./reference.js";
import { call } from "./server.js";
import { because } from "./trigger.js";
import { localTimes, moment } from "./zone.js";

const NAMED = 8;
const MOST_OBJECTS = 200;

const some = (names) => (names.length > NAMED ? `${names.slice(0, NAMED).join(", ")} and ${number(names.length - NAMED)} more` : names.join(", "));

/** A disclosure that reads its content each time it is opened, or told to while it is open. */
export class Unfolding {
  constructor({ title, className, read }) {
    this.read = read;
    this.turn = 0;
    this.content = h("div", { class: "unfolded" });
    this.element = h("details", { class: `unfolding ${className}` }, h("summary", {}, title), this.content);
    this.element.addEventListener("toggle", () => this.again());
  }

  /** Read again what is shown. */
  async again() {
    if (!this.element.open) return;
    const turn = this.turn += 1;
    if (!this.content.childElementCount) this.content.replaceChildren(h("p", { class: "quiet" }, "Reading…"));
    try {
      const made = await this.read();
      if (turn === this.turn) this.content.replaceChildren(...made);
    } catch (error) {
      if (turn === this.turn) this.content.replaceChildren(h("p", { class: "problem" }, error.message));
    }
  }

  /** Another placement: what was read is of no use. */
  reset() {
    this.turn += 1;
    this.element.open = false;
    this.content.replaceChildren();
  }
}

function decision(run) {
  const { time, trigger, gained, lost, found, wanted, difference } = run;
  const instant = Date.parse(time ?? "");
  return h("li", {},
    h("span", { class: "log-head" },
      Number.isNaN(instant) ? h("b", {}, "at an unknown time") : h("b", {}, h("time", { datetime: time }, moment(instant))), " ",
      Number.isNaN(instant) ? null : h("span", { class: "detail" }, ticking(instant, "", " ago")), " ",
      h("span", { class: "detail" }, `found ${number(found)}${wanted === null || wanted === undefined ? "" : ` of ${number(wanted)}`}`)),
    h("span", {}, `${localTimes(because(trigger?.message ?? ""))}.`),
    lost?.length ? h("span", { class: "moves lost" }, `− ${some(lost)}`) : null,
    gained?.length ? h("span", { class: "moves gained" }, `+ ${some(gained)}`) : null,
    difference?.length && !gained?.length && !lost?.length ? h("span", { class: "detail" }, difference.join("; ")) : null);
}

/** The last decisions on a placement, the latest first. */
export async function decisions(ref) {
  const { document } = await ask(`${placementPath(ref)}/runs`);
  const whole = h("p", {}, h("a", { href: timelineOf(ref) }, "Timeline of this placement"));
  if (!document.items.length) return [h("p", { class: "quiet" }, "No decisions recorded."), whole];
  return [h("ol", { class: "log" }, document.items.map(decision)), whole];
}

function objectLine(object) {
  const name = object.namespace ? `${object.namespace}/${object.name}` : object.name;
  return h("li", {}, pillOf(object.state), " ", h("b", {}, object.kind), ` ${name}`,
    object.message && object.state !== "available" ? h("span", { class: "detail" }, ` ${localTimes(object.message)}`) : null,
    object.message && object.reason ? h("span", { class: "detail" }, " ", refer(object.reason)) : null,
    ...[["drifts", "differs on the member"], ["diffs", "would be changed"]].map(([key, words]) =>
      object[key]?.length ? h("span", { class: "why" }, ` ${words}: ${object[key].slice(0, 5).map((one) => one.path ?? one).join(", ")}`) : null));
}

/** The objects of a placement on one cluster. */
export async function objectsOn(ref, cluster) {
  const { document } = await ask(`${placementPath(ref)}/tree/${encodeURIComponent(cluster)}`);
  if (!document.objectsKnown) {
    return [h("p", { class: "quiet" }, "This server may not read Works, so it does not know the objects. ", h("code", {}, call(`tree ${ref} --all`)), " shows them.")];
  }
  const works = document.clusters.flatMap((one) => one.works);
  const objects = works.flatMap((work) => work.objects);
  if (!objects.length) return [h("p", { class: "quiet" }, works.length ? "The agent has not reported any objects yet." : "Not placed there yet.")];
  return [
    h("p", { class: "detail" }, `${count(objects.length, "object")} in ${count(works.length, "Work")}`),
    h("ul", { class: "objects" }, objects.slice(0, MOST_OBJECTS).map(objectLine), objects.length > MOST_OBJECTS ? h("li", { class: "quiet" }, `and ${number(objects.length - MOST_OBJECTS)} more`) : null),
  ];
}

/** The placement as it is stored. */
export async function yamlOf(ref) {
  const text = await askText(`${placementPath(ref)}/object`, "application/yaml");
  return [h("pre", { class: "yaml", tabindex: 0, role: "region", "aria-label": "The placement as YAML" }, h("code", {}, text))];
}
