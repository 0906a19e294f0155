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
    available: [["Show its objects", `harbormaster tree ${ref}`]],
    "rolling out": [["Follow the rollout", `harbormaster tree ${ref} -w`], ...(failed ? [["Can it be changed there now?", `harbormaster gate rollout ${ref} ${failed.cluster}`]] : [])],
    stalled: [look, ["Revert the change that is stalled", `harbormaster edit ${ref}`]],
    failed: [look, ["Correct what cannot be applied", `harbormaster edit ${ref}`]],
    external: [["Show pending runs", "harbormaster run status"], ["Update it in stages", `harbormaster run start --help`]],
    short: [["Explain why other clusters were filtered out", `harbormaster explain ${ref}`], ["Request fewer clusters, or relax the policy", `harbormaster edit ${ref}`]],
    empty: [["Show its selectors", `harbormaster get ${ref} -o yaml`]],
    pending: [["Is the loop running?", "harbormaster doctor"]],
    invalid: [["Explain the error in the policy", `harbormaster explain ${ref}`], ["Correct it", `harbormaster edit ${ref}`]],
    "removal pending": [["Show its objects", `harbormaster tree ${ref}`]],
    removing: [["Show the remaining objects", `harbormaster tree ${ref}`], ["Show its finalizers", `kubectl get ${named(placement)} -o jsonpath='{.metadata.finalizers}'`]],
  };
  const confirm = placement.removalPendingSince ? [["Confirm the removal of its content from the members", `harbormaster confirm ${ref}`]] : [];
  return [...confirm, ...(found[state] ?? [["Show its objects", `harbormaster tree ${ref}`]])];
}

/** What a cluster in that state asks for. */
export function ofCluster({ name, state }) {
  const log = ["Agent log, on the member", "kubectl -n fleet-system logs deploy/harbormaster-agent"];
  const found = {
    eligible: [["Can it be updated now?", `harbormaster gate cluster-update ${name}`], ["Cordon it: no new placements", `harbormaster cordon ${name}`], ["Drain it: evict all placements", `harbormaster drain ${name}`]],
    silent: [log, ["Remove it: placements move to other clusters", `harbormaster leave ${name} --help`]],
    "not reporting": [log],
    "health unknown": [log],
    unhealthy: [log, ["Drain it: evict all placements", `harbormaster drain ${name}`]],
    "not joined": [["Run its agent", `harbormaster join --help`]],
    leaving: [["Show what blocks it", `harbormaster get memberclusters ${name} -o yaml`]],
  };
  return found[state] ?? [["Show the whole object", `harbormaster get memberclusters ${name} -o yaml`]];
}

/** A button that copies a text. */
function copier(text) {
  const button = h("button", { type: "button", class: "plain-button", "aria-label": `Copy: ${text}`, onclick: async () => {
    let said = "copied";
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      said = "select and copy manually"; // without HTTPS, or not allowed
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
