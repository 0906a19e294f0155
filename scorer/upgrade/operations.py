"""Which operations of a run its back ends have to be asked about.

Source: upgrade-runs.md 10.3 and 10.4.
"""

from collections.abc import Iterator

from scorer.api.upgrade.run import UpgradeRunStatus
from scorer.upgrade.record import OVER


def to_observe(status: UpgradeRunStatus) -> Iterator[str]:
    """Yield the ids of the operations of a run that may still be changing a cluster.

    Besides those of members in upgrade, these are attempts that were given up: until the back end reports their end,
    another one cannot begin.
    """
    for stage in status.stages:
        if stage.state in OVER or stage.start_time is None:
            continue
        for group in stage.groups:
            for member in group.members:
                if member.operation_id and member.state not in OVER:
                    yield member.operation_id
