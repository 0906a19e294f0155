/** Staged updates and upgrades: the list, and one run with what it waits for and its timeline. */

import { actionButton, runTarget, showActions } from "./actions.js";
import { beside, href, timelineOf } from "./address.js";
import { serverNow, ticking } from "./clock.js";
import { command } from "./commands.js";
import { flash, h, isNews, patchList, reveal, say } from "./dom.js";
import { count, number, tally } from "./format.js";
import { besideRow, pillInRow, pillOf } from "./reference.js";
import { hasAll, terms } from "./selection.js";
import { call, called, hasActions } from "./server.js";
import { tone } from "./states.js";
import { Timeline } from "./timeline.js";
import { Toolbar, counted } from "./toolbar.js";
import { localTimes, moment } from "./zone.js";

/** Where the API keeps a run: `csur/web-3` → `/v1/runs/csur/web-3`. */
export function runPath(ref) {
  return `/v1/runs/${ref.split("/").map(encodeURIComponent).join("/")}`;
}

/** `web-3`, or `shop/web-3` for a run of a namespace. */
function fullName(run) {
  return run.namespace ? `${run.namespace}/${run.name}` : run.name;
}

/** What a run brings: `web`, the name of a placement, or `Kubernetes 1.31.2`. */
function subject(run) {
  return run.upgrade || run.placement.slice(run.placement.indexOf("/") + 1);
}

const isOver = (run) => run.endedAt !== null;

/** The run that is rolling a placement out; `undefined`: none is. */
export function currentRun(placement, runs) {
  return (runs ?? []).find((run) => run.placement === placement.ref && run.startedAt !== null && !isOver(run));
}

/** The state of the run that a placement or one of its clusters waits for. */
function progressOf(run) {
  const [first] = run.waits;
  return first ? `run ${run.name} ${inWords(first)}` : `run ${run.name} is in progress`;
}

/** Reason for the state of a placement, with the run that is rolling it out. */
export function whyOf(placement, run) {
  return placement.state === "external" && run ? progressOf(run) : localTimes(placement.why ?? "");
}

const WAITS_FOR_RUN = /\bstaged update run$/; // in the status of a placement, which does not know what the run waits for

/** The clusters of a placement: those that wait for a run, with what that run waits for. */
export function clustersOf(placement, run) {
  if (!run) return placement.clusters;
  return placement.clusters.map((one) => (WAITS_FOR_RUN.test(one.detail) ? { ...one, detail: progressOf(run) } : one));
}

/** The first run that asks for something, else the first unfinished one, else the first. */
export function mostUrgent(runs) {
  return runs.find((run) => run.waits.some((wait) => wait.command)) ?? runs.find((run) => !isOver(run)) ?? runs[0];
}

/** One thing that a run waits for, in the words of `harbormaster run status`. */
function inWords(wait) {
  const until = wait.until && !wait.message.includes(" until ") ? `, until ${moment(Date.parse(wait.until))}` : "";
  return `waits for ${localTimes(wait.message)}${until}`;
}

/** What is to be said of a run in a line: what it waits for first, else what is wrong. */
function waitWords(run) {
  const [first] = run.waits;
  if (!first) return localTimes(run.why);
  return `${inWords(first)}${run.waits.length > 1 ? ` (and ${number(run.waits.length - 1)} more)` : ""}`;
}

function content(run) {
  const words = waitWords(run);
  return [
    h("span", { class: "row" },
      h("span", { class: "placement-name" }, run.namespace ? h("span", { class: "namespace" }, `${run.namespace}/`) : null, run.name),
      " ", h("span", { class: "num" }, h("span", { class: "key" }, "updated "), `${number(run.updated)} / ${number(run.clusters)}`),
      " ", h("span", { class: "unseen" }, run.state)),
    h("span", { class: "placement-picks" }, [subject(run), run.strategy].filter(Boolean).join(" · ")),
    words ? h("span", { class: "why" }, words) : null,
  ].filter(Boolean);
}

const CLUSTER_SCOPED = "cluster-scoped";

const wordsOf = (run) => [run.namespace, run.name, run.ref, run.state, run.strategy, subject(run), ...run.waits.map((wait) => wait.message)].join(" ").toLowerCase();

/** The list panel: keeps what the viewer unfolded between updates. */
export class RunsView {
  constructor({ body, sub, firstRows }) {
    Object.assign(this, { body, sub, firstRows, all: false, items: null, selected: "" });
    this.toolbar = new Toolbar("Update runs", [
      { key: "q", kind: "search", title: "Search runs", any: "name, placement, strategy" },
      { key: "state", kind: "select", title: "State", any: "any" },
      { key: "ns", kind: "select", title: "Namespace", any: "any" },
    ]);
    this.list = h("ul", { class: "placements runs", onkeydown: (event) => this.move(event) });
    this.note = h("p", { class: "quiet", hidden: true }, "No run matches.");
    this.more = h("button", { type: "button", class: "more", onclick: () => { this.all = !this.all; this.render(); } });
  }

  /** Show the runs, one of them selected. */
  show(items, selected) {
    this.items = items;
    this.selected = selected;
    this.render();
  }

  /** Arrow keys walk the list as well as Tab does. */
  move(event) {
    if (besideRow(event, event.target.closest("li"))) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    const links = [...this.list.querySelectorAll(".row-link")];
    const next = links[links.indexOf(document.activeElement) + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
  }

  /** Those of some runs that the filter in the address leaves. */
  matching(items) {
    const { q, state, ns } = this.toolbar.read();
    const wanted = terms(q);
    return items.filter((run) => (!state || run.state === state) && (!ns || (run.namespace || CLUSTER_SCOPED) === ns) && hasAll(wordsOf(run), wanted));
  }

  render() {
    const { items: all, body, sub } = this;
    if (!all) return;
    if (!all.length) {
      say(sub, "");
      if (isNews(body, "empty")) {
        body.replaceChildren(h("p", { class: "quiet nothing" }, "No staged updates or upgrades. Start one with ", h("code", {}, call("run start")), " or ", h("code", {}, call("upgrade start")), "."));
      }
      return;
    }
    if (isNews(body, "list")) {
      const head = h("div", { class: "placements-head runs", "aria-hidden": true }, ["", "updated", ""].map((title) => h("span", {}, title)));
      body.replaceChildren(this.toolbar.element, head, h("div", { class: "placements-box" }, this.list), this.note, this.more);
    }
    this.toolbar.offer("state", counted(tally(all, (run) => run.state)));
    this.toolbar.offer("ns", counted(tally(all, (run) => run.namespace || CLUSTER_SCOPED, [CLUSTER_SCOPED])));
    const items = this.matching(all);
    const open = items.filter((run) => !isOver(run)).length;
    say(sub, `${items.length < all.length ? `${number(items.length)} of ${number(all.length)} match` : count(items.length, "run")}${open ? `, ${number(open)} unfinished` : ""}`);
    this.note.hidden = items.length > 0;
    const limit = this.firstRows();
    const shown = this.all || items.length <= limit ? items : items.filter((run, index) => index < limit || run.ref === this.selected);
    patchList(this.list, shown, (run) => run.ref, () => h("li", {}, h("a", { class: "row-link" }), h("span", { class: "row-states" })), (element, run, isNew) => {
      const [link, states] = element.children;
      link.setAttribute("href", beside("runs", run.ref));
      if (run.ref === this.selected) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
      if (!isNews(link, [run.state, run.updated, run.clusters, run.why, run.waits, run.strategy, run.upgrade])) return;
      link.replaceChildren(...content(run));
      if (isNews(states, run.state)) states.replaceChildren(pillInRow(run.state));
      if (!isNew) flash(link);
    });
    reveal(this.list);
    this.more.hidden = items.length <= limit;
    say(this.more, this.all ? `Show only the first ${number(limit)}` : `Show all ${number(items.length)} runs`);
    this.more.setAttribute("aria-expanded", String(this.all));
  }
}

/** One wait: what for, and what answers it. */
function waiting(run, wait) {
  const answers = ["approve", "reject"].map((action) => answerButton(run, wait, action));
  return h("li", {}, h("span", {}, inWords(wait)), wait.command ? command(called(wait.command)) : null,
    answers.some(Boolean) ? h("span", { class: "actions" }, answers) : null);
}

/** The button that answers an approval that waits for the viewer. */
function answerButton(run, wait, action) {
  if (wait.kind !== "Approval" || !wait.request || !wait.command) return null;
  const title = action === "approve" ? "Approve" : "Reject";
  if (run.upgrade) return actionButton({ action, target: { kind: "ClusterUpgradeGate", name: wait.request } }, title);
  return actionButton({ action, target: runTarget(run), stage: wait.stage }, title);
}

const STOPPABLE = new Set(["running", "waiting", "stuck"]);

/** What may be done with a run as a whole. The server knows best, and explains a refusal. */
function actionsOf(run) {
  const target = runTarget(run);
  const out = [];
  if (STOPPABLE.has(run.state)) out.push([{ action: "stop", target }, "Stop"]);
  if (run.state === "stopped" || (run.upgrade && run.state === "failed")) out.push([{ action: "resume", target }, "Resume"]);
  if (run.canUndo) out.push([undoOf(run), `Roll back to snapshot ${run.undoTo}`]);
  return out;
}

/** The action that rolls a staged update back. */
export function undoOf(run) {
  return { action: "undo", target: runTarget(run) };
}

/** The command that rolls a staged update back. */
export function undoCommand(run) {
  return call(`undo ${run.name}${run.namespace ? ` -n ${run.namespace}` : ""}`);
}

/** Why a run that has ended, and has changed clusters, cannot be rolled back; empty if it can, or is rolled back already. */
export function noRollback(run, rollback) {
  const isMeant = !run.upgrade && !rollback && run.updated > 0 && (isOver(run) || run.state === "stopped");
  return isMeant && run.undoRefused ? `Rollback unavailable: ${run.undoRefused}.` : "";
}

const runLink = (run) => h("a", { href: href("runs", run.ref) }, run.name);

const folder = (run) => run.ref.slice(0, -run.name.length);

/** The run that rolls a run back, in progress or successful, as the server determines it; `undefined`: there is none. */
function rollbackOf(run, runs) {
  return runs.find((one) => one.rollbackOf === run.name && folder(one) === folder(run) && (!isOver(one) || one.state === "succeeded")
    && !(Date.parse(one.startedAt) < Date.parse(run.startedAt))); // an earlier run may have had the same name
}

/** The last run of a placement that has changed clusters, and is neither in progress nor rolled back; `undefined`: there is none. */
export function lastChange(own) {
  const last = own.find((run) => run.updated > 0 && run.state !== "failed");
  return last && (isOver(last) || last.state === "stopped") && !rollbackOf(last, own) ? last : undefined;
}

/** The panel of the selected run. */
export class RunView {
  constructor({ title, sub, json, body, firstRows }) {
    Object.assign(this, { title, sub, json, body, ref: "" });
    this.why = h("p", { class: "callout", hidden: true });
    this.waits = h("ul", { class: "callout waits", hidden: true, "aria-label": "Pending waits of the run" });
    this.actions = h("p", { class: "actions", hidden: true });
    this.rollback = h("p", { class: "quiet no-rollback", hidden: true }); // the command that rolls back, or why there is none
    this.timeline = new Timeline({ firstRows });
    this.quiet = h("p", { class: "quiet" }, "Loading the run…");
    this.entries = h("p", { class: "own-runs" });
  }

  /** There is no such run. */
  showNothing(words) {
    this.ref = "";
    say(this.title, "Update run");
    say(this.sub, "");
    this.json.hidden = true;
    if (isNews(this.body, words)) this.body.replaceChildren(h("p", { class: "quiet nothing" }, words));
  }

  /** Show a run as listed, or as read in full, with its rollback among all `runs`. */
  show(run, runs) {
    if (this.ref !== run.ref) {
      this.ref = run.ref;
      this.timeline.reset();
      this.timeline.element.hidden = true;
      this.quiet.hidden = false;
    }
    if (isNews(this.body, "run")) this.body.replaceChildren(this.why, this.waits, this.actions, this.rollback, this.quiet, this.timeline.element, this.entries);
    say(this.title, fullName(run));
    const rollback = rollbackOf(run, runs);
    this.drawSub(run, rollback, runs.find((one) => one.name === run.rollbackOf && folder(one) === folder(run)));
    this.json.hidden = false;
    this.json.href = runPath(run.ref);
    if (isNews(this.entries, run.ref)) this.entries.replaceChildren(h("a", { href: timelineOf(run.ref) }, "Who started, approved and stopped it"));
    const why = [run.why, run.rejected && `rejected: ${run.rejected}`].filter(Boolean).join("; ");
    this.why.hidden = !why;
    this.why.className = `callout ${tone(run.state)}`;
    say(this.why, localTimes(why));
    this.waits.hidden = !run.waits.length;
    this.waits.className = `callout waits ${run.waits.some((wait) => wait.command) ? "warn" : tone(run.state)}`;
    if (isNews(this.waits, [run.ref, run.waits])) this.waits.replaceChildren(...run.waits.map((wait) => waiting(run, wait)));
    if (isNews(this.actions, [run.ref, run.state, run.undoTo])) showActions(this.actions, actionsOf(run));
    this.drawRollback(run, rollback);
    if (!run.timeline) return;
    this.quiet.hidden = true;
    this.timeline.element.hidden = false;
    this.timeline.update(run.timeline);
  }

  drawRollback(run, rollback) {
    const refused = noRollback(run, rollback);
    const isCommand = run.canUndo && !hasActions;
    this.rollback.hidden = !refused && !isCommand;
    if (!isNews(this.rollback, [run.ref, refused, isCommand && run.undoTo])) return;
    this.rollback.replaceChildren(...(isCommand ? [`Roll back to snapshot ${run.undoTo}: `, command(undoCommand(run))] : [refused]));
  }

  drawSub(run, rollback, original) {
    if (!isNews(this.sub, [run.rollbackOf, original?.ref, rollback?.ref, rollback?.state, run.placement, run.strategy, run.resourceSnapshotIndex, run.state, run.startedAt, run.endedAt, run.updated, run.clusters, run.upgrade, run.expectedEnd])) return;
    const [started, ended, expected] = [run.startedAt, run.endedAt, run.expectedEnd].map((text) => Date.parse(text ?? ""));
    this.sub.replaceChildren(
      pillOf(run.state), " ", run.upgrade ? h("span", {}, subject(run)) : h("a", { href: href("placement", run.placement) }, subject(run)),
      run.resourceSnapshotIndex ? ` to snapshot ${run.resourceSnapshotIndex}` : "", run.strategy ? ` by ${run.strategy}` : "",
      ...(run.rollbackOf ? [" · rolls back ", original ? runLink(original) : run.rollbackOf] : []),
      ...(rollback ? [isOver(rollback) ? " · rolled back by " : " · being rolled back by ", runLink(rollback)] : []),
      ` · ${number(run.updated)} of ${count(run.clusters, "cluster")} updated`,
      ...(Number.isNaN(started) || run.state === "initialized" ? [] : [` · started ${moment(started)}`]),
      ...(Number.isNaN(expected) || !Number.isNaN(ended) || run.state === "stopped" ? []
        : expected < serverNow() ? [" · overdue, was expected to finish ", moment(expected)] : [` · expected to finish ${moment(expected)}`]),
      ...(Number.isNaN(ended) ? [] : [" · ", ticking(ended, "finished ", " ago")]),
    );
  }
}
