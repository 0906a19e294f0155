"""A member that refuses a part of what is placed: the placement names the object and the cause, the rest is applied."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from e2e.controlplane.cluster import LOOPBACK, JsonObject
from e2e.controlplane.process import free_port
from e2e.fleet.bed import Fleet
from e2e.fleet.objects import CONFIG_MAP, Objects, make_config_map, make_placement, pick_fixed
from e2e.fleet.settled import assert_settled
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import KINDS, NAMESPACE, PLACEMENT

MEMBER, REFUSED = "smartfish", "refused"
QUOTA = KINDS["", "ResourceQuota"]
HOOKS = KINDS["admissionregistration.k8s.io", "ValidatingWebhookConfiguration"]

Refusal = Callable[[Fleet, Objects, str], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def quota(fleet: Fleet, member: Objects, home: str) -> Iterator[None]:
    """A quota that is used up; its status is written here, since no controller counts."""
    full = {"hard": {"configmaps": "1"}, "used": {"configmaps": "1"}}
    metadata = {"name": "full", "namespace": home}
    member.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": full["hard"]}})
    member.patch_status(QUOTA, "full", full, home)
    fleet.on_hub.create(make_config_map(REFUSED, home, round="1"))
    yield
    member.delete(QUOTA, "full", home)


@contextlib.contextmanager
def broken_webhook(fleet: Fleet, member: Objects, home: str) -> Iterator[None]:
    """A webhook of the member that nothing answers, asked about one object."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
    hook = {
        "name": "broken.example.com",
        "clientConfig": {"url": f"https://{LOOPBACK}:{free_port()}/"},
        "rules": [rule],
        "matchConditions": [{"name": "one", "expression": f"request.name == '{REFUSED}'"}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }
    member.create({"apiVersion": HOOKS.api_version, "kind": HOOKS.kind, "metadata": {"name": home}, "webhooks": [hook]})
    try:
        fleet.on_hub.create(make_config_map(REFUSED, home, round="1"))
        yield
    finally:
        member.delete(HOOKS, home)


@contextlib.contextmanager
def immutable_field(fleet: Fleet, member: Objects, home: str) -> Iterator[None]:
    """An immutable ConfigMap that the hub has replaced by another one."""
    document = {**make_config_map(REFUSED, home, round="0"), "immutable": True}
    fleet.on_hub.create(document)
    wait_until("it is placed", lambda: "" if member.find(CONFIG_MAP, REFUSED, home) else "it is not there")
    fleet.on_hub.delete(CONFIG_MAP, REFUSED, home)
    fleet.on_hub.create({**document, "data": {"round": "1"}})
    yield
    member.delete(CONFIG_MAP, REFUSED, home)


@contextlib.contextmanager
def terminating_namespace(fleet: Fleet, member: Objects, home: str) -> Iterator[None]:
    """A namespace that is deleted on the member and cannot end, since an object of others has a finalizer."""
    held = make_config_map("held", home)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    member.create(held)
    member.delete(NAMESPACE, home)
    fleet.on_hub.create(make_config_map(REFUSED, home, round="1"))
    yield
    member.patch(CONFIG_MAP, "held", {"metadata": {"finalizers": None}}, home)


@pytest.mark.parametrize(
    ("refusal", "said", "rest_is_applied"),
    [
        pytest.param(quota, "exceeded quota: full", True, id="quota"),
        pytest.param(broken_webhook, 'failed calling webhook "broken.example.com"', True, id="broken-webhook"),
        pytest.param(immutable_field, "field is immutable", True, id="immutable-field"),
        pytest.param(terminating_namespace, "being ", False, id="terminating-namespace"),
    ],
)
def test_what_a_member_refuses_is_named_and_placed_as_soon_as_it_does_not(
    fleet, scene, refusal: Refusal, said, rest_is_applied
):
    home = f"e2e-{refusal.__name__.replace('_', '-')}"
    member = fleet.members[MEMBER].objects
    scene.home(home, make_placement(home, pick_fixed(MEMBER)), round="0")
    assert_settled(fleet)
    with refusal(fleet, member, home):
        wait_until("the placement names it", lambda: unnamed(fleet, home, said))
        fleet.on_hub.patch(CONFIG_MAP, "settings", {"data": {"round": "1"}}, home)
        if rest_is_applied:
            wait_until("the rest is applied", lambda: behind(member, home))
    assert_settled(fleet)


def unnamed(fleet: Fleet, home: str, said: str) -> str:
    """Say what the placement names instead; empty: an object that failed, with those words."""
    statuses: list[JsonObject] = (fleet.on_hub.get(PLACEMENT, home).get("status") or {}).get("placementStatuses") or []
    failed = [each for status in statuses for each in status.get("failedPlacements") or ()]
    return "" if any(said in each["condition"]["message"] for each in failed) else str(statuses)


def behind(member: Objects, home: str) -> str:
    data = member.get(CONFIG_MAP, "settings", home)["data"]
    return "" if data == {"round": "1"} else str(data)
