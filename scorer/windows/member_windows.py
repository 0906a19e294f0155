"""The maintenance windows of a member cluster: those in its annotation, and those that select it by labels.

Source: docs/specifications/upgrade-runs.md 3.1 and 11.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pydantic

from scorer.api.meta import first_mistake
from scorer.api.names import UPGRADE_WINDOWS
from scorer.api.unstructured.documents import annotation, labels_of, name_of, spec_of
from scorer.api.unstructured.json_object import JsonObject, format_time
from scorer.api.upgrade.fields import LONGEST_NAME, NAME_PATTERN
from scorer.api.upgrade.maintenance_window import ClusterMaintenanceWindow, WindowTarget
from scorer.api.values.label_selector import LabelSelector, selector_error
from scorer.windows.maintenance import HORIZON_DAYS, MaintenanceWindow, WindowState

MOST_NAMED: Final = 20
"""Maximum number of windows in the annotation of a member."""
OF_UPDATES: Final = frozenset({WindowTarget.ALL})
"""Targets of the windows that updates of placed content wait for. The others apply only to upgrades."""
_MOST_SAID: Final = 3
"""Maximum number of windows that a message names."""
_SUBJECTS: Final = ("maintenance window ", "maintenance windows ")


@dataclass(frozen=True, slots=True)
class WindowDefinition:
    """A ClusterMaintenanceWindow, as far as it is readable.

    Args:
        name: Name.
        target: Disruptions that wait for it. None: unknown, it is invalid.
        selector: Selects members. None: unset or invalid, it selects none.
        window: The parsed window. None: unknown, it is invalid.
        error: Reason why it is invalid.
    """

    name: str
    target: WindowTarget | None = None
    selector: LabelSelector | None = None
    window: MaintenanceWindow | None = None
    error: str = ""

    @classmethod
    def of(cls, document: JsonObject) -> "WindowDefinition":
        """Parse a ClusterMaintenanceWindow."""
        name, spec = name_of(document), spec_of(document)
        target, selector = _target(spec), _selector(spec)
        try:
            return cls(name, target, selector, _read_window(document))
        except pydantic.ValidationError as error:
            return cls(name, target, selector, error=first_mistake(error))
        except ValueError as error:
            return cls(name, target, selector, error=str(error))

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether it selects a member with *labels*."""
        return self.selector is not None and self.selector.matches(labels)


def _target(spec: JsonObject) -> WindowTarget | None:
    target = spec.get("target") or WindowTarget.ALL
    return WindowTarget(target) if target in tuple(WindowTarget) else None


def _selector(spec: JsonObject) -> LabelSelector | None:
    """Parse the selector on its own: an otherwise invalid window still selects members. None if absent or invalid."""
    if not isinstance(document := spec.get("memberSelector"), dict):
        return None
    try:
        selector = LabelSelector.read(document)
    except pydantic.ValidationError:
        return None
    return None if selector_error(selector) else selector


def _read_window(document: JsonObject) -> MaintenanceWindow:
    spec = ClusterMaintenanceWindow.read(document).spec
    if spec.member_selector is not None and (error := selector_error(spec.member_selector)):
        raise ValueError(f"spec.memberSelector: {error}")
    return MaintenanceWindow.of(spec)


@dataclass(frozen=True, slots=True)
class MemberWindows:
    """The windows that apply to a member.

    Args:
        names: Names of the existing windows, sorted.
        missing: Names in the member's annotation of windows that do not exist, sorted.
    """

    names: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClosedWindow:
    """Reason why a member may not be changed now.

    Args:
        message: Human-readable: the closed windows, and until when.
        opens: Time at which the first of them opens. None: unknown, or not within the horizon.
    """

    message: str
    opens: datetime | None = None


def parse_windows(text: str) -> tuple[str, ...]:
    """Parse the list in the annotation of a MemberCluster. Duplicates are ignored.

    Raises:
        ValueError: *text* names too many windows, or contains an invalid name.
    """
    names = tuple(dict.fromkeys(name for item in text.split(",") if (name := item.strip())))
    if len(names) > MOST_NAMED:
        raise ValueError(f"names {len(names)} windows, must name at most {MOST_NAMED}")
    for name in names:
        if len(name) > LONGEST_NAME or not re.fullmatch(NAME_PATTERN, name, re.ASCII):
            raise ValueError(f"{name[:64]!r} is not a valid name of a window")
    return names


def named_windows(member: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the windows in the annotation of a MemberCluster, empty if the list is invalid."""
    try:
        return parse_windows(annotation(member, UPGRADE_WINDOWS))
    except ValueError:
        return ()


def windows_of(
    member: Mapping[str, Any],
    definitions: Mapping[str, WindowDefinition],
    targets: Collection[WindowTarget],
    with_selector: Sequence[WindowDefinition],
) -> MemberWindows:
    """Return the windows of a MemberCluster.

    Args:
        member: The MemberCluster.
        definitions: All windows, by name.
        targets: Targets of the windows to include. A window with an unreadable target is also included.
        with_selector: The members of *definitions* that have a selector.
    """
    own_names, labels = named_windows(member), labels_of(member)
    candidates = {name for name in own_names if name in definitions} | {
        window.name for window in with_selector if window.selects(labels)
    }
    names = sorted(name for name in candidates if (target := definitions[name].target) is None or target in targets)
    return MemberWindows(tuple(names), tuple(sorted(name for name in own_names if name not in definitions)))


def closed_window(
    windows: MemberWindows, definitions: Mapping[str, WindowDefinition], now: WindowState
) -> ClosedWindow | None:
    """Return why a member with these windows may not be changed, or None.

    A missing or invalid window counts as closed: a user who names a window does not mean "at any time".

    Args:
        windows: Windows of the member.
        definitions: All windows, by name.
        now: State of the readable windows.
    """
    if now.is_open or not (windows.names or windows.missing):
        return None
    readable = [name for name in windows.names if definitions[name].window is not None]
    reasons = [_closed_text(readable, now.until)] if readable else []
    reasons += [
        f"maintenance window {name} cannot be read: {error}"
        for name in windows.names
        if (error := definitions[name].error)
    ][:_MOST_SAID]
    if windows.missing:
        reasons.append(f"{_windows(windows.missing)} {_verb(windows.missing, 'does', 'do')} not exist")
    return ClosedWindow("; ".join(reasons), now.until)


def is_about_windows(message: str) -> bool:
    """Return whether a message is that of a `ClosedWindow`."""
    return message.startswith(_SUBJECTS)


def _closed_text(names: Sequence[str], opens: datetime | None) -> str:
    until = f"until {format_time(opens)}" if opens is not None else f"for the next {HORIZON_DAYS} days"
    return f"{_windows(names)} {_verb(names, 'is', 'are')} closed {until}"


def _windows(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_SAID} more" if len(names) > _MOST_SAID else ""
    return f"{_verb(names, *_SUBJECTS)}{', '.join(names[:_MOST_SAID])}{more}"


def _verb(names: Sequence[str], singular: str, plural: str) -> str:
    return singular if len(names) == 1 else plural
