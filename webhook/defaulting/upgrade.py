"""Defaults of upgrade runs and maintenance windows.

The schema has the constant ones. They are also set here, for objects that no API server has handled. The others depend
on another field, on the stored object, or on the request.

A default that depends on the request is set once. An update that omits it gets the stored value, so that a client that
applies the same manifest repeatedly does not conflict with admission.

Source: docs/specifications/upgrade-runs.md 4.2 and 4.3; docs/specifications/serving.md 1.7.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from scorer.api.crd.pruning import apply_schema_defaults
from scorer.api.kinds import MAINTENANCE_WINDOW, UPGRADE_RUN, Kind
from scorer.api.meta import JsonObject, json_equal
from scorer.api.unstructured.documents import dict_at, spec_of, text_at
from scorer.api.upgrade.fields import OFFSET_PATTERN, UTC_OFFSET, NodeImageSelection, UpgradeType
from scorer.api.upgrade.run import LONGEST_TOKEN, UpgradeRunState
from webhook.defaulting.defaulted import (
    DefaultedObject,
    DefaultingContext,
    UnreadableDocumentError,
    object_at,
    replaced,
    within,
)
from webhook.validation.framework.rule import OURS, Rule, Severity, default, enforces

RUN_RULES: Final = (
    replace(
        default(
            "F-30",
            "The state of a run is Initialize, and timeouts and policies have their defaults.",
            OURS,
            "spec.state",
        ),
        only=(UPGRADE_RUN,),
    ),
    Rule("F-31", (Severity.DEFAULT,), "The selection of nodeImage is Latest, except for ControlPlaneOnly.", OURS),
    Rule("F-32", (Severity.MUTATE,), "A leading v is removed from kubernetesVersion.", OURS),
    Rule("F-33", (Severity.MUTATE,), "An update without restartToken keeps the stored one.", OURS),
)
RUN_STAMPS: Final = (
    Rule(
        "F-34",
        (Severity.MUTATE,),
        "A run whose state changes from Stop to Run gets a new restartToken, unless the update sets one.",
        OURS,
    ),
)
WINDOW_RULES: Final = (
    replace(
        default(
            "F-35",
            "A window is open for 4 hours, at utcOffset +00:00, with target All.",
            OURS,
            "spec.durationHours",
            "spec.utcOffset",
            "spec.target",
        ),
        only=(MAINTENANCE_WINDOW,),
    ),
    Rule("F-36", (Severity.MUTATE,), "An update without startDate keeps the stored one.", OURS),
)
WINDOW_STAMPS: Final = (
    Rule("F-37", (Severity.MUTATE,), "A window with an interval above 1 and no startDate starts today.", OURS),
)
_OFFSET: Final = re.compile(OFFSET_PATTERN, re.ASCII)


@enforces(*RUN_RULES)
def default_run(document: JsonObject, old: JsonObject | None = None) -> DefaultedObject:
    """Set the defaults of a run (F-30 to F-33). A run with wrong JSON types is returned unchanged."""

    def fill(spec: JsonObject) -> JsonObject:
        if old is None or not json_equal(spec.get("upgrade"), spec_of(old).get("upgrade")):
            spec = within(spec, "upgrade", _default_upgrade)
        return _with_stored_value(spec, old, "restartToken")

    return _filled(UPGRADE_RUN, document, fill)


@enforces(*RUN_STAMPS)
def stamp_run(document: JsonObject, old: JsonObject | None, occasion: DefaultingContext) -> JsonObject:
    """Set a new token when a user restarts a run, unless the user sets one (F-34)."""
    if old is None or (text_at(old, "spec", "state"), text_at(document, "spec", "state")) != (
        UpgradeRunState.STOP,
        UpgradeRunState.RUN,
    ):
        return document
    token = spec_of(document).get("restartToken")
    if token and token != text_at(old, "spec", "restartToken"):
        return document
    return replaced(document, "spec", {**spec_of(document), "restartToken": occasion.uid[:LONGEST_TOKEN]})


@enforces(*WINDOW_RULES)
def default_window(document: JsonObject, old: JsonObject | None = None) -> DefaultedObject:
    """Set the defaults of a window (F-35, F-36)."""
    return _filled(MAINTENANCE_WINDOW, document, lambda spec: _with_stored_value(spec, old, "startDate"))


@enforces(*WINDOW_STAMPS)
def stamp_window(document: JsonObject, old: JsonObject | None, occasion: DefaultingContext) -> JsonObject:
    """Set ``startDate`` for a new schedule that skips days, weeks or months: today, at the window's offset (F-37)."""
    spec, schedule = spec_of(document), dict_at(document, "spec", "schedule")
    if spec.get("startDate") is not None or not _counts(schedule):
        return document
    if old is not None and json_equal(schedule, dict_at(old, "spec", "schedule")):
        return document  # the schedule is unchanged
    return replaced(document, "spec", {**spec, "startDate": _today(spec, occasion.now)})


def _filled(kind: Kind, document: JsonObject, fill: Callable[[JsonObject], JsonObject]) -> DefaultedObject:
    """Return *document* with the defaults of the schema in its spec, and those that *fill* adds.

    If its spec cannot be read, it is returned unchanged.
    """
    raw_spec = document.get("spec")
    if not isinstance(raw_spec, dict):
        return DefaultedObject(document)
    try:
        spec = fill(apply_schema_defaults(kind, {"spec": raw_spec})["spec"])
    except UnreadableDocumentError:
        return DefaultedObject(document)
    return DefaultedObject(document if spec is raw_spec else {**document, "spec": spec})


def _default_upgrade(upgrade: JsonObject) -> JsonObject:
    """Default to the newest node images if nodes are upgraded (F-31), and normalize versions (F-32)."""
    version = upgrade.get("kubernetesVersion")
    if isinstance(version, str) and re.match("v[0-9]", version, re.ASCII):
        upgrade = replaced(upgrade, "kubernetesVersion", version[1:])
    if upgrade.get("type") in (UpgradeType.FULL, UpgradeType.NODE_IMAGE_ONLY):
        images = object_at(upgrade, "nodeImage") or {}
        if images.get("selection") is None:
            upgrade = replaced(upgrade, "nodeImage", {**images, "selection": NodeImageSelection.LATEST.value})
    return upgrade


def _with_stored_value(spec: JsonObject, old: JsonObject | None, field: str) -> JsonObject:
    """Return *spec* with the stored value of a field that an update omits (F-33, F-36)."""
    current = None if old is None else spec_of(old).get(field)
    return {**spec, field: current} if current is not None and spec.get(field) is None else spec


def _counts(schedule: JsonObject) -> bool:
    """Return whether a schedule skips days, weeks or months, so that the start of its count matters."""
    for each in schedule.values():
        for field, value in each.items() if isinstance(each, dict) else ():
            if field.startswith("interval") and isinstance(value, int) and value > 1:
                return True
    return False


def _today(spec: JsonObject, now: datetime) -> str:
    offset = spec.get("utcOffset")
    text = offset if isinstance(offset, str) and _OFFSET.fullmatch(offset) else UTC_OFFSET
    hours, minutes = int(text[1:3]), int(text[4:6])
    ahead = timedelta(hours=hours, minutes=minutes) * (-1 if text.startswith("-") else 1)
    return (now + ahead).date().isoformat()
