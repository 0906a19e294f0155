"""``harbormaster uncordon``: mark a member schedulable."""

from typing import Final

from webhook.cli.members.cordon import cordon_command

HELP: Final = """Mark a member schedulable again.

Removes the taint that `harbormaster cordon` and `harbormaster drain` add. Other taints remain.

\b
Examples:
  harbormaster uncordon east

\b
Exit codes:
  0  uncordoned now or earlier
  1  no such member, or an unreachable hub
"""


command = cordon_command("uncordon", HELP, "Mark a member schedulable again.", cordoned=False)
