"""Rules on ClusterUpgradeProfile.

Source: docs/specifications/upgrade-runs.md 4.3 and 12.
"""

import re
from collections.abc import Iterator
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.upgrade.fields import MINOR_PATTERN
from scorer.api.upgrade.profile import Channel, ClusterUpgradeProfile, ProfileImageSelection, UpgradeProfileSpec
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import SPEC, Cause, FieldError, invalid
from webhook.validation.framework.reading import Finding, read_object
from webhook.validation.framework.rule import OURS, deny, enforces, schema, shape_rules
from webhook.validation.upgrade.shape import (
    SELECTORS,
    WRITTEN_BY_USERS,
    validate_about,
    validate_reference,
    validate_selector,
)

RULES: Final = (
    *WRITTEN_BY_USERS,
    SELECTORS,
    deny(
        "C-19",
        "targetKubernetesVersion must be set when channel is TargetKubernetesVersion, and must not be set otherwise.",
        OURS,
    ),
    deny("C-20", "longTermSupport must not be set unless channel is TargetKubernetesVersion.", OURS),
    deny("C-21", "Channels NodeImage and SecurityPatch require Consistent images.", OURS),
    schema("C-48", "targetKubernetesVersion must be a minor version, X.Y.", OURS, "spec.targetKubernetesVersion"),
)
SHAPE_RULES: Final = shape_rules(RULES)
_MINOR: Final = re.compile(MINOR_PATTERN, re.ASCII)
_CHANNEL: Final = SPEC / "channel"
_IMAGE_CHANNELS: Final = (Channel.NODE_IMAGE, Channel.SECURITY_PATCH)


@enforces(*RULES)
def validate(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield the errors and warnings of a profile."""
    reading = read_object(ClusterUpgradeProfile, document, SHAPE_RULES)
    yield from reading.errors
    if reading.view is not None:
        before = read_object(ClusterUpgradeProfile, old).view if old is not None else None
        yield from reading.trusted(_judge(reading.view, before, context))


def _judge(new: ClusterUpgradeProfile, old: ClusterUpgradeProfile | None, context: Context) -> Iterator[Finding]:
    yield from validate_about(new.metadata, old.metadata if old else None, context)
    yield from validate_selector(new.spec.member_selector, SPEC)
    yield from validate_reference(new.spec.strategy_ref)
    yield from _validate_target(new.spec)
    yield from _validate_channel(new.spec)


def _validate_target(spec: UpgradeProfileSpec) -> Iterator[FieldError]:
    """The channel TargetKubernetesVersion requires a minor version, all others take none (C-19, C-48)."""
    at, target = SPEC / "targetKubernetesVersion", spec.target_kubernetes_version
    if target and not _MINOR.fullmatch(target):
        yield invalid(at, target, "must be a minor version such as 1.31", "C-48")
    elif target and spec.channel is not Channel.TARGET_KUBERNETES_VERSION:
        yield FieldError(at, Cause.FORBIDDEN, f"must not be set when channel is {spec.channel}", "C-19", (at, _CHANNEL))
    elif not target and spec.channel is Channel.TARGET_KUBERNETES_VERSION:
        reason = "must be a minor version such as 1.31 when channel is TargetKubernetesVersion"
        yield FieldError(at, Cause.REQUIRED, reason, "C-19", (at, _CHANNEL))


def _validate_channel(spec: UpgradeProfileSpec) -> Iterator[FieldError]:
    """Some settings require a certain channel (C-20, C-21)."""
    if spec.long_term_support and spec.channel is not Channel.TARGET_KUBERNETES_VERSION:
        at = SPEC / "longTermSupport"
        yield FieldError(
            at, Cause.FORBIDDEN, "must not be set unless channel is TargetKubernetesVersion", "C-20", (at, _CHANNEL)
        )
    selection = spec.node_image.selection if spec.node_image is not None else None
    if spec.channel in _IMAGE_CHANNELS and selection not in (None, ProfileImageSelection.CONSISTENT):
        at = SPEC / "nodeImage" / "selection"
        yield invalid(at, selection, f"must be Consistent when channel is {spec.channel}", "C-21", (at, _CHANNEL))
