/** The states the API names, in the order they are counted, and the tone each is shown in. */

const TONES = {
  eligible: "good", available: "good", picked: "good", kept: "good", reported: "good", applied: "good", same: "good",
  "rolling out": "busy", "not yet": "busy", applying: "busy", upgrading: "busy", succeeded: "good", initializing: "busy", running: "busy",
  empty: "warn", "removal pending": "warn", short: "warn", "not joined": "warn", "health unknown": "warn", waiting: "warn", warned: "warn", differs: "warn", drifted: "warn", stopping: "warn", stopped: "warn",
  stuck: "bad", aborted: "bad", stalled: "bad", silent: "bad", "not reporting": "bad", refusing: "bad", unhealthy: "bad", refused: "bad", failed: "bad", invalid: "bad",
};

export const CLUSTER_STATES = ["eligible", "leaving", "silent", "not reporting", "unhealthy", "refusing", "health unknown", "not joined"];
export const PLACEMENT_STATES = ["available", "empty", "removal pending", "rolling out", "stalled", "external", "pending", "being reevaluated", "removing", "short", "failed", "invalid"];
export const ROLLOUT_STATES = ["available", "applying", "waiting", "failed", "removing", "removal pending"];

/** The tone of a state; states this page has not heard of are grey. */
export function tone(state) {
  return TONES[state] ?? "calm";
}
