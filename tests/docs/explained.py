"""What the page of troubleshooting explains, for tests of several pages."""

import re
from typing import Final

from tests.docs.pages import DOCS, read_page

TROUBLESHOOTING: Final = read_page(DOCS / "troubleshooting.md")
TYPES: Final = frozenset(
    heading.text for heading in TROUBLESHOOTING.headings if re.fullmatch(r"[A-Z]\w+", heading.text)
) - {"Troubleshooting", "Symptoms", "Probes", "Events", "Alerts"}
"""The types of conditions that have a section."""
FAILURES_TOLD_BY_EVENTS: Final = (
    "overridefailed",
    "stagedupdatefailed",
    "analysisfailed",
    "clusterupgradefailed",
    "upgradeplanfailed",
    "upgradeprofilefailed",
    "nodepoolfailed",
    "nodedisruptionfailed",
)
"""Reasons, in lower case, of Events that tell of controllers whose objects have no status of ours."""
