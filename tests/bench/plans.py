"""Plan rows: what a change to a hub of 1,000 placements and 1,000 clusters would cause, in seconds of CPU.

Every placement is affected: a cluster of each is lost, the content of each changes, or an override applies to each.
"""

import gc
import time

from scorer.what_if.document import what_if
from scorer.what_if.state import HubState, HypotheticalChanges
from tests.bench.figures import Figure, Part
from tests.scorer.builders import pick_n
from tests.scorer.what_if.settled_hub import RATES, cluster, placement, settled
from tests.webhook.controllers.override_rules import make_override, rule

PLACEMENTS, CLUSTERS = 1_000, 1_000
GOAL_SECONDS = 15.0
PART = Part("plans")
CHANGES = {
    "a lost cluster": HypotheticalChanges(lost=["c0003"]),
    "new content": HypotheticalChanges(objects=[{**RATES, "data": {"a": "2"}}]),
    "an override": HypotheticalChanges(
        objects=[make_override("o", rule("${MEMBER-CLUSTER-NAME}", path="/data/b"), placement="")]
    ),
}


def hub(clusters: int) -> HubState:
    """Return a hub on which every placement is rolled out to the first *clusters* members."""
    names = [f"c{number:04}" for number in range(CLUSTERS)]
    members = [cluster(name, labels={"zone": f"z{at % 5}"}) for at, name in enumerate(names)]
    placements = [placement(f"p{number:04}", pick_n(clusters)) for number in range(PLACEMENTS)]
    return settled(*((subject, names[:clusters]) for subject in placements), members_=members)


def measure(clusters: int) -> None:
    """Report the CPU time of a plan of each change."""
    state = hub(clusters)
    gc.freeze()
    for title, changes in CHANGES.items():
        start = time.process_time()
        plan = what_if(state, changes)
        seconds = time.process_time() - start
        changed = sum(entry["changed"] for entry in plan["placements"])
        work = f"{title}, {PLACEMENTS:,} placements on {clusters} of {CLUSTERS:,}"
        PART.report(Figure(work, seconds, "s", GOAL_SECONDS, note=f"{changed:,} change"))
    gc.unfreeze()


def main() -> None:
    """Report all figures."""
    measure(10)
    measure(100)


if __name__ == "__main__":
    main()
