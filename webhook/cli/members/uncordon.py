"""``harbormaster uncordon``: mark a member schedulable."""

from typing import Final

from webhook.cli.members.cordon import cordon_command

HELP: Final = """Let a member get placements again.

Takes off the taint that `harbormaster cordon` and `harbormaster drain` put on it; other taints stay.

\b
Examples:
  harbormaster uncordon east

\b
Exit codes:
  0  the taint is gone, or there was none
  1  no such member, or no hub
"""


command = cordon_command("uncordon", HELP, "Let a member get placements again.", cordoned=False)
