/**
 * Actions on the hub, if the server offers them: a button opens a dialog with the command and its effect, and sends the
 * action only after the viewer has confirmed it. The server refuses it if anything shown there has changed.
 */

import { ask } from "./api.js";
import { command } from "./commands.js";
import { h } from "./dom.js";
import { count } from "./format.js";
import { changesOfRun } from "./release.js";
import { called, hasActions, isOpenToMachine, tokenPath } from "./server.js";
import { keepToken, readToken } from "./session.js";
import { localTimes } from "./zone.js";

const WORDS = { approve: "Approve", reject: "Reject", stop: "Stop", resume: "Resume", undo: "Roll back", confirm: "Confirm removal of", cordon: "Cordon", uncordon: "Uncordon" };
const REASONED = new Set(["approve", "reject"]);
const PATH = "/v1/actions";
const GUIDE = "https://harbormaster.dev/docs/the-page.html#actions";

const dialog = document.getElementById("action");
let opener = ""; // key of the button that has opened the dialog: a live update may have replaced the button since

if (hasActions) document.getElementById("writes").textContent = "Actions are executed with your rights, after you confirm them.";

/** The title of an action: `Approve spring`. */
const titleOf = ({ action, target }) => `${WORDS[action]} ${target.namespace ? `${target.namespace}/` : ""}${target.name}`;

/** A button for an action, `null` if the server offers none. `words` are shown if they differ from its title. */
export function actionButton(order, words = titleOf(order)) {
  if (!hasActions || !dialog) return null;
  const key = JSON.stringify(order);
  const title = titleOf(order);
  const name = title !== words && title.startsWith(words) ? title : null; // the spoken name has to begin with the shown one
  return h("button", { type: "button", class: "act", "data-action": key, "aria-haspopup": "dialog", "aria-label": name, onclick: () => { opener = key; open(order); } }, words);
}

/** The buttons of several actions in a row; hidden without any. */
export function showActions(row, orders) {
  const buttons = orders.map(([order, words]) => actionButton(order, words)).filter(Boolean);
  row.hidden = !buttons.length;
  row.replaceChildren(...buttons);
}

/** The target of an action on a run, as the API names it. */
export function runTarget({ kind, namespace, name }) {
  return namespace ? { kind, namespace, name } : { kind, name };
}

function returnFocus() {
  const button = [...document.querySelectorAll("button[data-action]")].find((one) => one.dataset.action === opener);
  (button ?? document.getElementById("main")).focus();
}

dialog?.addEventListener("close", returnFocus);

function open(order) {
  new Action(order).begin();
  dialog.showModal();
}

/** What the viewer of a refusal can do next. `wasSent`: the action itself was refused, not its preview. */
function nextStep(status, wasSent) {
  if (status === 403) return ["Nothing was changed. Ask an administrator of the hub for this right: ", h("a", { href: GUIDE }, "Rights of actions"), "."];
  if (status === 409) return [wasSent ? "Nothing was changed. Check again to see the current effect." : "Nothing was changed. The action is possible once this reason no longer applies."];
  if (status === 0 || status >= 500) return [wasSent ? "The action may have been executed. Check again to see the current state." : "Nothing was changed. Check again later."];
  return [];
}

/** One action, from its preview to its result. */
class Action {
  constructor(order) {
    this.order = order;
    this.facts = null;
    this.turn = 0; // of the preview: changes that arrive in a later one are outdated
    this.body = h("div", { class: "action-effect" });
    this.changes = h("section", { class: "action-changes", "aria-label": "Changes", hidden: true });
    this.status = h("p", { class: "action-status", role: "status" });
    this.next = h("p", { class: "quiet action-next", hidden: true });
    this.reason = h("textarea", { id: "action-reason", class: "control", rows: 2, maxlength: 1024, required: order.action === "reject" });
    this.token = h("input", { id: "action-token", class: "control", type: "password", autocomplete: "off", spellcheck: "false" });
    this.reasonField = h("p", { class: "action-field", hidden: !REASONED.has(order.action) },
      h("label", { for: "action-reason" }, order.action === "reject" ? "Reason" : "Reason (optional)"), this.reason);
    this.tokenField = h("p", { class: "action-field", hidden: true },
      h("label", { for: "action-token" }, `Token of this hub: the content of ${tokenPath || "the file token in its data folder"}`), this.token);
    this.confirm = h("button", { type: "submit", class: "act primary", disabled: true }, "Confirm");
    this.cancel = h("button", { type: "button", class: "act", onclick: () => dialog.close() }, "Cancel");
    this.form = h("form", { onsubmit: (event) => { event.preventDefault(); this.submit(); } },
      h("h2", { id: "action-title" }, titleOf(order)), this.body, this.changes, this.reasonField, this.tokenField, this.status, this.next, h("p", { class: "action-buttons" }, this.confirm, this.cancel));
    dialog.replaceChildren(this.form);
  }

  say(words, tone = "") {
    this.next.hidden = true;
    this.status.className = `action-status ${tone ? `callout ${tone}` : ""}`;
    this.status.textContent = words;
  }

  begin() {
    this.preview();
  }

  /** Ask for the effect. */
  async preview() {
    this.facts = null;
    this.turn += 1;
    this.changes.hidden = true;
    this.confirm.disabled = true;
    this.say("Checking the effect…");
    try {
      const { document: answer } = await ask(PATH, { body: { ...this.order, dryRun: true } });
      if (!this.form.isConnected) return;
      this.show(answer);
      this.tokenField.hidden = true;
      if (!answer.impact.length) {
        this.finish(answer.outcome, "calm");
        return;
      }
      this.facts = answer.precondition;
      this.confirm.classList.add("primary");
      this.confirm.textContent = "Confirm";
      this.confirm.disabled = false;
      this.say("");
      this.showChanges(answer.updates);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Show what changes on the clusters that the action updates next. Without it, the action can be confirmed as well. */
  async showChanges(clusters) {
    this.changes.hidden = !clusters.length;
    if (!clusters.length) return;
    const { turn } = this;
    const title = h("h3", {}, `Changes on ${count(clusters.length, "cluster")}`);
    this.changes.replaceChildren(title, h("p", { class: "quiet" }, "Comparing the content…"));
    const content = await changesOfRun(this.order.target, clusters).catch((error) => [h("p", { class: "quiet" }, `Changes unavailable: ${error.message}`)]);
    if (turn === this.turn) this.changes.replaceChildren(title, ...content);
  }

  show(answer) {
    this.body.replaceChildren(
      h("p", {}, command(called(answer.command))),
      h("ul", { class: "action-impact", "aria-label": "Effect" }, answer.impact.map((words) => h("li", {}, localTimes(words).replace(/(?<=: )harbormaster .*$/, called)))),
      ...(answer.warnings.length ? [h("ul", { class: "callout warn action-warnings", "aria-label": "Warnings" }, answer.warnings.map((words) => h("li", {}, localTimes(words))))] : []));
  }

  /** Confirm: execute what was shown, or ask for the effect again. */
  submit() {
    if (!this.tokenField.hidden) {
      const text = readToken(this.token.value);
      this.token.value = "";
      if (text === null) {
        this.say("This is not a token.", "bad");
        this.token.focus();
        return;
      }
      keepToken(text);
    }
    if (this.facts) this.execute();
    else this.preview();
  }

  async execute() {
    const { facts } = this;
    this.confirm.disabled = true;
    this.say("Executing…");
    try {
      const reason = this.reason.value.trim();
      const { document: answer } = await ask(PATH, { body: { ...this.order, ...(reason ? { reason } : {}), precondition: facts } });
      if (!this.form.isConnected) return;
      this.show(answer);
      this.finish(answer.outcome, "good");
    } catch (error) {
      this.fail(error);
    }
  }

  /** Show a refusal in the words of the server. Nothing has been changed. */
  fail(error) {
    if (!this.form.isConnected) return;
    if (error.status === 401 && isOpenToMachine) {
      this.tokenField.hidden = false;
      this.say(error.token ? "The token is not accepted." : "Actions need the token of this hub.", error.token ? "bad" : "warn");
      keepToken("");
      this.confirm.textContent = "Continue";
      this.confirm.disabled = false;
      this.token.focus();
      return;
    }
    // Another state or an outage may be over by now. A right, or a reason in the state of the object, is not.
    const mayChange = error.status === 0 || error.status === 429 || error.status >= 500 || (error.status === 409 && this.facts !== null);
    this.confirm.classList.toggle("primary", mayChange);
    const next = nextStep(error.status, this.facts !== null);
    const isExpected = error.status === 409 && error.detail; // the status and the ID of the request explain nothing then
    this.say(isExpected ? localTimes(error.detail) : error.message, isExpected ? "warn" : "bad");
    this.facts = null;
    this.next.replaceChildren(...next);
    this.next.hidden = !next.length;
    this.confirm.textContent = "Check again";
    this.confirm.disabled = false;
  }

  finish(words, tone) {
    this.reasonField.hidden = true;
    this.confirm.hidden = true;
    this.cancel.textContent = "Close";
    this.say(localTimes(words), tone);
    this.cancel.focus();
  }
}
