/**
 * What if: a request to `/v1/plan`, and the response as clusters before and after. Nothing is written.
 *
 * The plan is made by the engine that decides, for the hub as it is now.
 */

import { ask } from "./api.js";
import { href } from "./address.js";
import { h } from "./dom.js";
import { count, number } from "./format.js";

const NAMED = 12;
const MOST_PLACEMENTS = 50;

const some = (names) => (names.length > NAMED ? `${names.slice(0, NAMED).join(", ")} and ${number(names.length - NAMED)} more` : names.join(", "));

function moves(placement) {
  const { gained, lost } = placement.moves;
  return [
    lost.length ? h("span", { class: "moves lost" }, h("span", { class: "unseen" }, "loses "), h("span", { "aria-hidden": true }, "− "), some(lost)) : null,
    gained.length ? h("span", { class: "moves gained" }, h("span", { class: "unseen" }, "gains "), h("span", { "aria-hidden": true }, "+ "), some(gained)) : null,
  ].filter(Boolean);
}

/** Before and after of one placement, in numbers. */
function numbers({ before, picked, wanted }) {
  const [had, has] = [before.length, picked.length];
  return `${number(had)} → ${number(has)}${wanted === null ? "" : ` of ${number(wanted)}`}`;
}

const refOf = ({ name, namespace }) => (namespace ? `rp/${namespace}/${name}` : `crp/${name}`);

function row(placement) {
  const steps = placement.rollout?.steps?.length ?? 0;
  const blocked = placement.rollout?.blocked;
  const failures = placement.rollout?.failures ?? [];
  const rollout = blocked ? `the rollout is blocked: ${blocked.message}` : steps ? `in ${count(steps, "step")}` : "";
  return h("li", {},
    h("span", { class: "whatif-head" }, h("a", { href: href("placement", refOf(placement)) }, refOf(placement)), " ", h("span", { class: "num" }, numbers(placement))),
    moves(placement),
    placement.satisfied ? null : h("span", { class: "why" }, placement.message),
    failures.length ? h("span", { class: "why" }, `fails on ${some(failures.map((one) => one.cluster))}: ${failures[0].message}`) : null,
    rollout ? h("span", { class: "detail" }, rollout) : null);
}

/** The answer: what admission says, and the placements that would change. */
function answer(document) {
  const refused = (document.admission ?? []).filter((one) => one.allowed === false);
  if (refused.length) return [h("p", { class: "callout bad" }, `Admission would refuse it: ${refused.flatMap((one) => (one.errors ?? []).map((error) => `${error.field}: ${error.message}`)).join("; ") || "no reason given"}`)];
  const changed = document.placements.filter((one) => one.changed || one.moves.gained.length || one.moves.lost.length);
  if (!changed.length) return [h("p", { class: "callout" }, "Nothing would change.")];
  const short = changed.filter((one) => !one.satisfied);
  const moved = changed.reduce((sum, one) => sum + one.moves.lost.length, 0);
  const words = `${count(changed.length, "placement")} would change, ${count(moved, "binding")} would be removed${short.length ? `, ${number(short.length)} would have too few clusters` : ""}.`;
  const ordered = [...changed].sort((a, b) => a.satisfied - b.satisfied);
  return [
    h("p", { class: `callout ${short.length ? "warn" : ""}` }, words),
    h("ul", { class: "whatif-rows" }, ordered.slice(0, MOST_PLACEMENTS).map(row)),
    ordered.length > MOST_PLACEMENTS ? h("p", { class: "quiet" }, `and ${number(ordered.length - MOST_PLACEMENTS)} more`) : null,
  ].filter(Boolean);
}

/** A request with its controls; `question()` returns the body of `/v1/plan`, or a promise of it. */
export class WhatIf {
  constructor({ name, controls, question, label = "Show the plan" }) {
    this.question = question;
    this.asked = 0;
    this.button = h("button", { type: "submit", class: "act" }, label);
    this.result = h("div", { class: "whatif-result", "aria-live": "polite" });
    this.form = h("form", { class: "whatif-form", "aria-label": name, onsubmit: (event) => { event.preventDefault(); this.ask(); } }, controls, this.button);
    this.element = h("div", { class: "whatif" }, this.form, this.result);
  }

  /** Forget the last answer. */
  reset() {
    this.asked += 1;
    this.result.replaceChildren();
  }

  async ask() {
    const turn = this.asked += 1;
    this.button.disabled = true;
    this.result.replaceChildren(h("p", { class: "quiet" }, "Planning…"));
    try {
      const { document } = await ask("/v1/plan", { body: await this.question() });
      if (turn === this.asked) this.result.replaceChildren(...answer(document));
    } catch (error) {
      if (turn === this.asked) this.result.replaceChildren(h("p", { class: "problem" }, `No plan: ${error.message}`));
    } finally {
      this.button.disabled = false;
    }
  }
}
