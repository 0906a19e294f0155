"""What the reference takes for the same work, and where the figure comes from.

Of admission, only the row that sends the same bytes is compared.
"""

from dataclasses import dataclass
from typing import Final

SOURCES: Final = {
    1: "KubeFleet e160c1c, its scheduler framework in process, 2 cores, beside ours",
    2: "KubeFleet e160c1c, its validating webhook over TLS confined to one core, 16 connections of wrk, the same bytes "
    "as ours; the bare handler beside it took 8,650-9,280 /s",
    3: "KubeFleet e160c1c, hub agent with a real kube-apiserver 1.36.3 on the same 2 cores, beside ours",
    4: "KubeFleet, scale figures published by the project",
}


@dataclass(frozen=True)
class Reference:
    """What the reference takes: a figure as it is quoted, and the number of its source in `SOURCES`."""

    figure: str
    source: int


REFERENCES: Final = {
    ("engine", "PickN 10 of 1,000"): Reference("3.4-7.2 ms", 1),
    ("engine", "PickN 100 of 10,000"): Reference("41-67 ms", 1),
    ("engine", "PickN 100 of 100,000"): Reference("700-920 ms", 1),
    ("engine", "PickN 10 of 1,000, hard spread"): Reference("48-66 ms", 1),
    ("engine", "PickN 100 of 10,000, hard spread"): Reference("8,600 ms", 1),
    ("admission", "create, user review, rate"): Reference("2,375-2,690 /s", 2),
    ("admission", "create, user review, p99"): Reference("28-36 ms", 2),
    ("hub", "50 placements on 10 of 100, until all Works exist"): Reference("19.9-23.5 s", 3),
    ("hub", "200 placements on 10 of 100, until all Works exist"): Reference("61-90 s", 3),
    ("hub", "200 placements on 10 of 100, until the statuses say so"): Reference("63-90 s", 3),
    ("hub", "CPU of the loop for 200 placements"): Reference("23-27 s", 3),
    ("hub", "memory, 1,000 members, 1,000 placements on 10"): Reference("234 MB", 4),
    ("resync", "1,000 placements on 100 clusters, once more"): Reference("p90 660 s", 4),
}
"""By part and work."""
