"""Table cells for objects: values of the printer columns, and ages as kubectl writes them.

Source: Kubernetes ``additionalPrinterColumns``; apimachinery ``pkg/util/duration``, HumanDuration.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

import orjson

from scorer.api.cluster.scores import read_score, score_names
from scorer.api.crd.columns import AGE, PRINTER_COLUMNS, Column
from scorer.api.family import PLACEMENTS
from scorer.api.kinds import EVENT, MEMBER_CLUSTER, NAMESPACE, OUR_KINDS, Kind
from scorer.api.names import REMOVAL_PENDING_CONDITION, RESOURCES_SELECTED, SCORE_PREFIX
from scorer.api.unstructured.documents import dicts_at, text_at
from scorer.api.unstructured.json_object import JsonObject, dump_json, parse_time
from scorer.api.values.duration import format_duration

SCORES: Final = Column("Scores", ".metadata.annotations", "scores", wide=True)
"""External scores of a member cluster with their remaining time, which no column of a definition can compute."""
UPDATED: Final = Column("Updated", ".status.placementStatuses", "updated")
"""Picked clusters that are Available or DiffReported, such as ``3/6``. Others may still serve an earlier version."""
STATE: Final = Column("State", ".status.conditions", "attention")
"""States that the other columns of a placement do not show: removals that wait for a user, and no content."""
JOINED: Final = Column("Joined", ".status", "joined")
"""Replaces the definition's column. Until the hub has set the member's condition, only its agent's exists."""
_YEARS: Final = timedelta(days=2 * 365)
_OF_EVENTS: Final = (
    Column("Last Seen", "", "seen"),
    Column("Type", ".type"),
    Column("Reason", ".reason"),
    Column("Object", ".regarding", "object"),
    Column("Name", ".metadata.name", wide=True),
    Column("Message", ".note"),
)
"""Columns of kubectl for Events. The name of an Event is meaningless."""
_OTHERS: Final = {NAMESPACE: (Column("Status", ".status.phase"), AGE), EVENT: _OF_EVENTS}
_STEP: Final = re.compile(
    r'\.((?:[^.\[\\]|\\.)+)|\[\?\(@\.([A-Za-z]+)==["\']([^"\']*)["\']\)\]|\[([0-9]{1,9})\]', re.ASCII
)


def columns_of(kind: Kind, *, wide: bool, definition: JsonObject | None = None) -> tuple[Column, ...]:
    """Return the columns of a kind after its name. For Events, return all of them.

    Args:
        kind: Any kind.
        wide: Include wide columns.
        definition: The CustomResourceDefinition of a kind that is not ours.
    """
    columns = PRINTER_COLUMNS.get(kind) or _OTHERS.get(kind)
    if columns is None:
        columns = _defined(definition) if definition else (AGE,)
    if kind == MEMBER_CLUSTER:
        columns = (*(JOINED if column.name == JOINED.name else column for column in columns), SCORES)
    if kind in PLACEMENTS:
        columns = (*(column for column in columns if column != AGE), UPDATED, STATE, AGE)
    return tuple(column for column in columns if wide or not column.wide)


def has_columns(kind: Kind) -> bool:
    """Return whether the columns of a kind are known here."""
    return kind in _OTHERS or kind in OUR_KINDS


def _defined(definition: JsonObject) -> tuple[Column, ...]:
    versions: list[JsonObject] = definition["spec"]["versions"]
    version = next((version for version in versions if version.get("storage")), versions[0])
    columns = tuple(
        Column(column["name"], column["jsonPath"], text_at(column, "type") or "string", bool(column.get("priority")))
        for column in dicts_at(version, "additionalPrinterColumns")
        if text_at(column, "name") and text_at(column, "jsonPath")
    )
    return columns if any(column.name == AGE.name for column in columns) else (*columns, AGE)


def cells(document: JsonObject, columns: Sequence[Column], now: datetime) -> list[str]:
    """Return the values of the columns for an object, empty if absent."""
    return [_cell(find_path(document, column.path), column.type, now) for column in columns]


def _cell(value: Any, kind: str, now: datetime) -> str:
    if value is None:
        return ""
    if kind == "date":
        with suppress(ValueError):
            return format_age((now - parse_time(str(value))).total_seconds())
        return "<invalid>"
    if kind == "scores":
        return _scores(value, now)
    if kind == "updated":
        return _updated_share(value)
    if kind == "attention":
        return _attention(value)
    if kind == "joined":
        return _joined_status(value)
    if kind == "seen":
        seen_at = last_seen(value)
        return _cell(seen_at, "date", now) if seen_at else "<unknown>"
    if kind == "object":
        return f"{text_at(value, 'kind').lower()}/{text_at(value, 'name')}"
    if isinstance(value, dict | list):
        return _as_json(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_json(value: Any) -> str:
    try:
        return " ".join(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode().split())
    except orjson.JSONEncodeError:  # lone surrogates, integers beyond 64 bits
        return dump_json(value).decode()


def _scores(annotations: Mapping[str, str], now: datetime) -> str:
    words = []
    for name in score_names(annotations):
        score, short = read_score(annotations, name), name.removeprefix(SCORE_PREFIX)
        if score is None:
            words.append(f"{short}=<unreadable>")
            continue
        note = ""
        if score.valid_until is not None:
            remaining = score.valid_until - now
            note = f" ({_span(remaining)} left)" if remaining >= timedelta() else f" (expired {_span(-remaining)} ago)"
        words.append(f"{short}={score.value}{note}")
    return ", ".join(words)


def _span(duration: timedelta) -> str:
    """Write a duration in the format of explanations.

    Two years and more are written as years, because the number of days would be too long.
    """
    return format_duration(duration) if duration < _YEARS else format_age(duration.total_seconds())


def _updated_share(entries: Any) -> str:
    """Return `3/6` if three of six clusters are Available or DiffReported."""
    of_clusters = dicts_at({"entries": entries}, "entries")
    picked = [dicts_at(entry, "conditions") for entry in of_clusters if entry.get("clusterName")]
    done = sum(
        any(
            condition.get("type") in ("Available", "DiffReported") and condition.get("status") == "True"
            for condition in conditions
        )
        for conditions in picked
    )
    return f"{done}/{len(picked)}"


def _attention(conditions: Any) -> str:
    statuses = {
        condition.get("type"): condition.get("status")
        for condition in dicts_at({"conditions": conditions}, "conditions")
    }
    pending = ["removal pending"] if statuses.get(REMOVAL_PENDING_CONDITION) == "True" else []
    return ", ".join([*pending, *(["empty"] if statuses.get(RESOURCES_SELECTED) == "False" else [])])


def last_seen(event: Mapping[str, Any]) -> str:
    """Return when an Event was seen last. Empty: unknown."""
    paths = (".series.lastObservedTime", ".deprecatedLastTimestamp", ".eventTime", ".metadata.creationTimestamp")
    return str(next((timestamp for path in paths if (timestamp := find_path(event, path))), ""))


def _joined_status(status: Mapping[str, Any]) -> str:
    """Return whether a member has joined, according to the hub's condition or else its agent's."""
    agents = '.agentStatus[?(@.type=="MemberAgent")].conditions'
    hub_status, agent_status = (
        find_path(status, f'{path}[?(@.type=="Joined")].status') for path in (".conditions", agents)
    )
    return str(hub_status or agent_status or "")


def find_path(document: Any, path: str) -> Any:
    r"""Return the first value that *path* finds, or None.

    Args:
        document: Decoded JSON.
        path: The part of JSONPath that printer columns use: ``.a.b``, ``.a\.b``, ``[0]``, ``[?(@.type=="X")]``.
    """
    position, value = 0, document
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            return None
        position = step.end()
        member, field, expected, index = step.groups()
        if member is not None:
            value = value.get(re.sub(r"\\(.)", r"\1", member)) if isinstance(value, Mapping) else None
        elif not isinstance(value, list):
            return None
        elif index is not None:
            value = value[int(index)] if int(index) < len(value) else None
        else:
            value = next((item for item in value if isinstance(item, Mapping) and item.get(field) == expected), None)
        if value is None:
            return None
    return value


_SECOND, _MINUTE, _HOUR, _DAY, _YEAR = 1, 60, 3600, 86400, 365 * 86400
_AGES: Final = (
    (2 * _MINUTE, _SECOND, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", _SECOND, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)
"""Units by maximum age."""


def format_age(seconds: float) -> str:
    """Write an age as kubectl does: ``41s``, ``3m10s``, ``72m``, ``5h``, ``12d``, ``3y``."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    for limit, unit, letter, smaller, small_letter in _AGES:
        if whole < limit:
            count, rest = divmod(whole, unit)
            more = rest // smaller if smaller else 0
            return f"{count}{letter}{more}{small_letter}" if more else f"{count}{letter}"
    return f"{whole // _YEAR}y"
