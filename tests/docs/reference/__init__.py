"""The pages of ``docs/reference`` that are made from the code; ``make docs`` writes them."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.docs.reference import api, commands, events, kinds, metrics, rules

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "api.md": api.page,
    "commands.md": commands.page,
    "events.md": events.page,
    "exit-codes.md": commands.exit_codes_page,
    "kinds.md": kinds.page,
    "metrics.md": metrics.page,
    "rules.md": rules.page,
}
"""File in ``docs/reference`` to what makes its text."""
