"""The back ends that are installed.

Source: upgrade-runs.md 13.1.
"""

from collections.abc import Iterable
from importlib.metadata import entry_points

from webhook.controllers.upgraders.upgrader import MakeUpgrader, Upgrader, Workplace
from webhook.settings.upgraders import ENTRY_POINTS


class UpgraderError(Exception):
    """A back end cannot be used; the message names it."""


def make_upgraders(names: Iterable[str], workplace: Workplace) -> dict[str, Upgrader]:
    """Return the back ends of these names.

    Args:
        names: Of entry points.
        workplace: What they work with.

    Raises:
        UpgraderError: One is not installed, or cannot be loaded.
    """
    return {name: _make(name, workplace) for name in names}


def _make(name: str, workplace: Workplace) -> Upgrader:
    found = entry_points(group=ENTRY_POINTS, name=name)
    if not found:
        raise UpgraderError(f"there is no upgrader {name!r} among the installed packages")
    try:
        make: MakeUpgrader = next(iter(found)).load()
        return make(workplace)
    except Exception as error:  # whatever the package of somebody else does
        raise UpgraderError(f"the upgrader {name!r} cannot be loaded: {error!r}") from error
