/** The states the API names, in the order they are counted, and the tone each is shown in. */

const TONES = {
  eligible: "good", available: "good", picked: "good", kept: "good",
  "rolling out": "busy", applying: "busy", upgrading: "busy", succeeded: "good", initializing: "busy", running: "busy",
  empty: "warn", "removal pending": "warn", short: "warn", "not joined": "warn", "health unknown": "warn", waiting: "warn", stopping: "warn", stopped: "warn",
  stuck: "bad", aborted: "bad", stalled: "bad", silent: "bad", "not reporting": "bad", failing: "bad", refusing: "bad", unhealthy: "bad", failed: "bad", invalid: "bad",
};

export const CLUSTER_STATES = ["eligible", "leaving", "silent", "not reporting", "unhealthy", "failing", "refusing", "health unknown", "not joined"];
export const PLACEMENT_STATES = ["available", "empty", "removal pending", "rolling out", "stalled", "external", "pending", "being reevaluated", "removing", "short", "failed", "invalid"];
export const ROLLOUT_STATES = ["available", "applying", "waiting", "failed", "removing", "removal pending"];

/** The tone of a state; states this page has not heard of are grey. */
export function tone(state) {
  return TONES[state] ?? "calm";
}

/**
 * The clusters on which no placement can be applied, each with the number of its placements.
 *
 * A cluster counts if all its placements fail there, and it has several or one that is available on another cluster: a
 * single placement that fails everywhere has a fault of its own.
 */
export function failingClusters(placements) {
  const found = new Map();
  for (const { clusters } of placements) {
    const isSound = clusters.some((one) => one.state === "available");
    for (const { cluster, state } of clusters) {
      const tally = found.get(cluster) ?? { failed: 0, total: 0, isOwnFault: false };
      tally.total += 1;
      tally.failed += state === "failed";
      tally.isOwnFault ||= isSound;
      found.set(cluster, tally);
    }
  }
  return new Map([...found].filter(([, { failed, total, isOwnFault }]) => failed === total && (total > 1 || isOwnFault)).map(([name, { total }]) => [name, total]));
}

/** A cluster with the state `failing` if no placement can be applied there and nothing else is wrong with it. */
export function withFailure(cluster, failing) {
  const amount = failing.get(cluster.name);
  if (!amount || cluster.state !== "eligible") return cluster;
  return { ...cluster, state: "failing", stateDetail: amount === 1 ? "its placement cannot be applied" : `none of its ${amount} placements can be applied` };
}
