/** For each state the command that shows more or acts; the page itself writes nothing. */

import { h, isNews } from "./dom.js";

/** The kubectl name of a placement: `crp payments`, `rp cart -n shop`. */
const named = ({ namespace, name }) => (namespace ? `rp ${name} -n ${namespace}` : `crp ${name}`);

/** What a placement in that state asks for: `[[why, command], …]`. */
export function ofPlacement(placement) {
  const { ref, state, clusters } = placement;
  const failed = clusters.find((one) => one.state === "failed" || one.state === "applying") ?? clusters[0];
  const look = ["Every object on every cluster", `harbormaster tree ${ref} --all`];
  const found = {
    available: [["What is below it", `harbormaster tree ${ref}`]],
    "rolling out": [["Follow the rollout", `harbormaster tree ${ref} -w`], ...(failed ? [["May it be changed there now?", `harbormaster gate rollout ${ref} ${failed.cluster}`]] : [])],
    stalled: [look, ["Take back the change that does not get on", `harbormaster edit ${ref}`]],
    failed: [look, ["Change what cannot be applied", `harbormaster edit ${ref}`]],
    external: [["See what waits", "harbormaster run status"], ["Change it stage by stage", `harbormaster run start --help`]],
    short: [["Why the others were turned away", `harbormaster explain ${ref}`], ["Want fewer, or ask for less", `harbormaster edit ${ref}`]],
    empty: [["What it selects", `harbormaster get ${ref} -o yaml`]],
    pending: [["Is the loop at work?", "harbormaster doctor"]],
    invalid: [["What is wrong with the policy", `harbormaster explain ${ref}`], ["Correct it", `harbormaster edit ${ref}`]],
    "removal pending": [["What is below it", `harbormaster tree ${ref}`]],
    removing: [["What still holds it", `harbormaster tree ${ref}`], ["Its finalizers", `kubectl get ${named(placement)} -o jsonpath='{.metadata.finalizers}'`]],
  };
  const confirm = placement.removalPendingSince ? [["Let its content be removed from the members", `harbormaster confirm ${ref}`]] : [];
  return [...confirm, ...(found[state] ?? [["What is below it", `harbormaster tree ${ref}`]])];
}

/** What a cluster in that state asks for. */
export function ofCluster({ name, state }) {
  const log = ["What its agent says, on the member", "kubectl -n fleet-system logs deploy/harbormaster-agent"];
  const found = {
    eligible: [["May it be updated now?", `harbormaster gate cluster-update ${name}`], ["Let it get no new placements", `harbormaster cordon ${name}`], ["Take everything off it", `harbormaster drain ${name}`]],
    silent: [log, ["Give it up: what is placed there goes elsewhere", `harbormaster leave ${name} --help`]],
    "not reporting": [log],
    "health unknown": [log],
    unhealthy: [log, ["Take everything off it", `harbormaster drain ${name}`]],
    "not joined": [["Run its agent", `harbormaster join --help`]],
    leaving: [["What it waits for", `harbormaster get memberclusters ${name} -o yaml`]],
  };
  return found[state] ?? [["Everything about it", `harbormaster get memberclusters ${name} -o yaml`]];
}

/** A button that copies a text. */
function copier(text) {
  const button = h("button", { type: "button", class: "plain-button", "aria-label": `Copy: ${text}`, onclick: async () => {
    let said = "copied";
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      said = "select it, and copy it by hand"; // without HTTPS, or not allowed
    }
    button.textContent = said;
    setTimeout(() => { button.textContent = "copy"; }, 2000);
  } }, "copy");
  return button;
}

/** A command that is selected as a whole, broken between its words only, and can be copied. */
export function command(text) {
  return h("span", { class: "command-line" },
    h("code", { class: "command" }, text.split(" ").flatMap((word, index) => [index ? " " : "", h("span", {}, word)])), " ", copier(text));
}

/** Show commands with what each is for, in a list that is patched only when they change. */
export function showCommands(list, commands) {
  if (!isNews(list, commands)) return;
  list.replaceChildren(...commands.map(([why, text]) => h("li", {}, h("span", { class: "command-why" }, why), command(text))));
}
