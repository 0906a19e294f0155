"""The settings of the reconcile loop: defaults of the reference, bounds, and errors that name setting and value."""

from datetime import timedelta
from pathlib import Path

import pytest

from scorer.member_gate.holds import MemberDisruption
from scorer.rollout.confirmation.policy import NO_CONFIRMATION, ConfirmationMode
from webhook.settings.environment import SettingsError
from webhook.settings.gate import NodeDisruptionMode, NodeDisruptionOptions
from webhook.settings.loop import HubLoopSettings, LoopSettings


def test_the_defaults_are_those_of_the_reference():
    settings = HubLoopSettings.read({}).loop()
    gated = (MemberDisruption.EVICTION, MemberDisruption.UPGRADE)  # which waits only for what the reference has not
    assert settings == LoopSettings(
        gate_members=gated,
        node_disruption=NodeDisruptionOptions(NodeDisruptionMode.ADVISE),
    )
    assert (settings.snapshots.interval, settings.snapshots.collection) == (
        timedelta(seconds=30),
        timedelta(seconds=15),
    )
    assert settings.force_delete_after == timedelta(minutes=15)
    assert settings.removal_needs_budget
    assert settings.write_concurrency == 32


def test_every_setting_reaches_the_loop():
    settings = HubLoopSettings.read(
        {
            "HARBORMASTER_RESOURCE_SNAPSHOT_INTERVAL_SECONDS": "0",
            "HARBORMASTER_RESOURCE_COLLECTION_SECONDS": "1.5",
            "HARBORMASTER_BLOCKED_KINDS": "v1/Secret; apps",
            "HARBORMASTER_SKIPPED_NAMESPACES": "infra,build",
            "HARBORMASTER_WORKLOADS_ENABLED": "true",
            "HARBORMASTER_REMOVAL_NEEDS_BUDGET": "false",
            "HARBORMASTER_FORCE_DELETE_SECONDS": "60",
            "HARBORMASTER_RECONCILE_WORKERS": "3",
            "HARBORMASTER_WRITE_CONCURRENCY": "5",
        }
    ).loop()
    assert (settings.snapshots.interval, settings.snapshots.collection) == (timedelta(), timedelta(seconds=1.5))
    assert not settings.selection.is_selectable("", "v1", "Secret")
    assert not settings.selection.is_selectable("apps", "v1", "Deployment")
    assert settings.selection.is_selectable("", "v1", "ConfigMap")
    assert settings.selection.is_reserved("infra")
    assert settings.selection.is_reserved("build")
    assert settings.selection.workloads_enabled
    assert not settings.removal_needs_budget
    assert settings.force_delete_after == timedelta(minutes=1)
    assert (settings.workers, settings.write_concurrency) == (3, 5)


def test_which_removals_need_confirmation_reaches_the_loop():
    policy = (
        HubLoopSettings.read(
            {
                "HARBORMASTER_REMOVAL_CONFIRMATION_OBJECTS": "Confirm",
                "HARBORMASTER_REMOVAL_CONFIRMATION_PLACEMENT": "Off",
                "HARBORMASTER_REMOVAL_CONFIRMATION_WINDOW_SECONDS": "60",
                "HARBORMASTER_REMOVAL_CONFIRMATION_KINDS": "Secret, *.example.com",
                "HARBORMASTER_REMOVAL_CONFIRMATION_EXEMPT": "",
            }
        )
        .loop()
        .removal
    )
    assert (policy.objects, policy.placement) == (ConfirmationMode.CONFIRM, ConfirmationMode.OFF)
    assert policy.data is ConfirmationMode.CONFIRM
    assert policy.window == timedelta(minutes=1)
    assert policy.holds_data("", "Secret")
    assert policy.holds_data("example.com", "Anything")
    assert not policy.holds_data("postgresql.cnpg.io", "Cluster")
    assert policy.exempt is None
    every = HubLoopSettings.read({"HARBORMASTER_REMOVAL_CONFIRMATION": "Warn"}).loop().removal
    assert set(every.modes.values()) == {ConfirmationMode.WARN}
    off = HubLoopSettings.read({"HARBORMASTER_REMOVAL_CONFIRMATION": "Off"}).loop().removal
    assert off == NO_CONFIRMATION


def test_how_nodes_are_disrupted_reaches_the_loop():
    settings = HubLoopSettings.read(
        {
            "HARBORMASTER_NODE_DISRUPTION_MODE": "Act",
            "HARBORMASTER_NODE_DISRUPTION_PRICES": "/prices/types.csv",
            "HARBORMASTER_NODE_DISRUPTION_SPOT_TO_SPOT": "true",
            "HARBORMASTER_NODE_DISRUPTION_KARPENTER_LEASE": "karpenter/lead",
            "HARBORMASTER_EXPIRATION_MODE": "Graceful",
        }
    )
    found = settings.loop().node_disruption
    assert (found.mode, found.prices, found.spot_to_spot) == (NodeDisruptionMode.ACT, Path("/prices/types.csv"), True)
    assert (found.karpenter_namespace, found.karpenter_lease) == ("karpenter", "lead")
    assert found.graceful_expiration


def test_allowed_kinds_are_the_only_ones():
    selection = HubLoopSettings.read({"HARBORMASTER_ALLOWED_KINDS": "v1/ConfigMap,Namespace"}).loop().selection
    assert selection.is_selectable("", "v1", "ConfigMap")
    assert not selection.is_selectable("apps", "v1", "Deployment")


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        pytest.param({"ALLOWED_KINDS": "a/b/c/d"}, ["HARBORMASTER_ALLOWED_KINDS", "'a/b/c/d'"], id="allowed"),
        pytest.param({"BLOCKED_KINDS": "v1/Pod;/"}, ["HARBORMASTER_BLOCKED_KINDS", "'/' is not one of"], id="blocked"),
        pytest.param(
            {"ALLOWED_KINDS": "apps", "BLOCKED_KINDS": "batch"},
            ["allowed_kinds: must not be set when blocked_kinds is set"],
            id="both-lists",
        ),
        pytest.param(
            {"ROLLOUT_STALLED_SECONDS": "9"}, ["HARBORMASTER_ROLLOUT_STALLED_SECONDS", "'9'"], id="stalled-at-once"
        ),
        pytest.param({"FORCE_DELETE_SECONDS": "29"}, ["HARBORMASTER_FORCE_DELETE_SECONDS", "29"], id="too-soon"),
        pytest.param({"FORCE_DELETE_SECONDS": "3601"}, ["HARBORMASTER_FORCE_DELETE_SECONDS", "3601"], id="too-late"),
        pytest.param(
            {"RESOURCE_SNAPSHOT_INTERVAL_SECONDS": "301"},
            ["HARBORMASTER_RESOURCE_SNAPSHOT_INTERVAL_SECONDS", "301"],
            id="interval",
        ),
        pytest.param({"RESOURCE_COLLECTION_SECONDS": "61"}, ["RESOURCE_COLLECTION_SECONDS", "61"], id="collection"),
        pytest.param({"LEASE_NAME": "A b"}, ["HARBORMASTER_LEASE_NAME", "'A b'"], id="lease"),
        pytest.param({"RECONCILE_WORKERS": "0"}, ["HARBORMASTER_RECONCILE_WORKERS", "0"], id="no-workers"),
        pytest.param({"WRITE_CONCURRENCY": "151"}, ["HARBORMASTER_WRITE_CONCURRENCY", "151"], id="beyond-the-pool"),
        pytest.param(
            {"REMOVAL_CONFIRMATION_DATA": "Maybe"}, ["HARBORMASTER_REMOVAL_CONFIRMATION_DATA", "Maybe"], id="mode"
        ),
        pytest.param(
            {"REMOVAL_CONFIRMATION_KINDS": "a b"}, ["HARBORMASTER_REMOVAL_CONFIRMATION_KINDS", "'a b'"], id="pattern"
        ),
        pytest.param(
            {"REMOVAL_CONFIRMATION_EXEMPT": "ephemeral"},
            ["HARBORMASTER_REMOVAL_CONFIRMATION_EXEMPT", "KEY=VALUE"],
            id="label",
        ),
        pytest.param({"REMOVAL_NEEDS_BUDGET": "perhaps"}, ["REMOVAL_NEEDS_BUDGET", "perhaps"], id="no-boolean"),
    ],
)
def test_a_wrong_value_is_named(environment, words):
    with pytest.raises(SettingsError) as caught:
        HubLoopSettings.read({f"HARBORMASTER_{name}": value for name, value in environment.items()})
    assert all(word in str(caught.value) for word in words), str(caught.value)
