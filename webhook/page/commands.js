/** For each state the command that shows more or acts. */

import { h, isNews } from "./dom.js";
import { call, isSimulated } from "./server.js";

/** What a placement in that state asks for, and the run that is rolling it out, if any: `[[why, command], …]`. */
export function ofPlacement({ ref, state, clusters, removalPendingSince }, run) {
  const failed = clusters.find((one) => one.state === "failed" || one.state === "applying") ?? clusters[0];
  const look = ["Every object on every cluster", `tree ${ref} --all`];
  const objects = ["Show its objects", `tree ${ref}`];
  const found = {
    available: [objects],
    "rolling out": [["Follow the rollout", `tree ${ref} -w`], ...(failed ? [["Can it be changed there now?", `gate rollout ${ref} ${failed.cluster}`]] : [])],
    stalled: [look, ["Revert the change that is stalled", `edit ${ref}`]],
    failed: [look, ["Correct what cannot be applied", `edit ${ref}`]],
    external: run ? [["Show the run", `run status ${run.name}${run.namespace ? ` -n ${run.namespace}` : ""}`]] : [["Update it in stages", "run start --help"]],
    short: [["Explain why other clusters were filtered out", `explain ${ref}`], ["Request fewer clusters, or relax the policy", `edit ${ref}`]],
    empty: [["Show its selectors", `get ${ref} -o yaml`]],
    pending: isSimulated ? [["Show its conditions", `describe ${ref}`]] : [["Is the loop running?", "doctor"]],
    invalid: [["Explain the error in the policy", `explain ${ref}`], ["Correct it", `edit ${ref}`]],
    "removal pending": [objects],
    removing: [["Show the remaining objects", `tree ${ref}`], ["Show its finalizers", `get ${ref} -o yaml`]],
  };
  const confirm = removalPendingSince ? [["Confirm the removal of its content from the members", `confirm ${ref}`]] : [];
  return [...confirm, ...(found[state] ?? [objects])].map(([why, words]) => [why, call(words)]);
}

export const isCordoned = ({ taints }) => (taints ?? []).some((one) => one.key === "cordon-key" && one.effect === "NoSchedule");

/** Commands for a cluster in its state. */
export function ofCluster(cluster) {
  const { name, state } = cluster;
  const cordon = isCordoned(cluster) ? ["Uncordon it: allow new placements", call(`uncordon ${name}`)] : ["Cordon it: no new placements", call(`cordon ${name}`)];
  const log = isSimulated ? [] : [["Agent log, if the member's context has its name", `kubectl --context ${name} -n harbormaster-system logs deploy/harbormaster-agent`]];
  const drain = ["Drain it: evict all placements", call(`drain ${name}`)];
  const found = {
    eligible: [["Can it be updated now?", call(`gate cluster-update ${name}`)], cordon, drain],
    refusing: [...log, cordon, drain],
    silent: [...log, ["Remove it: placements move to other clusters", call("leave --help")]],
    "not reporting": log,
    "health unknown": log,
    unhealthy: [...log, drain],
    "not joined": [["Run its agent", call("join --help")]],
  };
  const own = found[state] ?? [];
  return own.length ? own : [["Show the whole object", call(`get memberclusters ${name} -o yaml`)]];
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
