"""``harbormaster cordon``, ``uncordon`` and ``drain`` against a hub whose loop carries evictions out."""

from contextlib import asynccontextmanager

import pytest

from scorer.api.kinds import DISRUPTION_BUDGET, EVICTION, MEMBER_CLUSTER
from tests.builders.placement import make_placement
from tests.webhook.cli.conftest import running_hub
from tests.webhook.controllers.world import make_member, running
from webhook.kube.ports import Key

OTHER = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
PICK_ALL = {"placementType": "PickAll", "tolerations": [{"key": "gpu", "operator": "Exists"}]}


class Hub:
    """A hub with three members; ``web`` is on two of them at most."""

    def __init__(self, running, world):
        self.hub = running
        self.world = world

    def add(self, *documents):
        self.hub.run(self.world.add(*documents))

    def get(self, kind, name):
        return self.hub.run(self.world.store.get(kind, Key(name)))

    def until(self, test):
        self.hub.run(self.world.until(test))

    def taints(self):
        return self.get(MEMBER_CLUSTER, "a")["spec"].get("taints") or []


@pytest.fixture
def opened(tmp_path, monkeypatch):
    monkeypatch.setattr("webhook.cli.members.evictions.POLL_SECONDS", 0.02)
    monkeypatch.setattr("webhook.cli.members.evictions.FIRST_PAUSE", 0.1)
    worlds = []

    @asynccontextmanager
    async def world():
        async with running() as found:
            for name in "abc":
                member = make_member(name)
                if name == "a":
                    member["spec"]["taints"] = [OTHER]
                await found.add(member)
            worlds.append(found)
            yield found.store

    with running_hub(tmp_path / "hub", world) as hub:
        monkeypatch.setenv("HARBORMASTER_DATA", str(hub.data))
        yield Hub(hub, worlds[0])


def place(opened, name="web", policy=None, **more):
    opened.add(make_placement(name, policy or PICK_ALL, **more))
    opened.until(lambda: "a" in opened.world.bound(name))


def budget(name, **limits):
    about = {"apiVersion": DISRUPTION_BUDGET.api_version, "kind": DISRUPTION_BUDGET.kind}
    return {**about, "metadata": {"name": name}, "spec": limits}


def ok(result, code=0):
    assert result.exit_code == code, (result.stdout, result.stderr)
    return result.stdout


def test_a_member_is_cordoned_once_and_uncordoned_once(cli, opened):
    assert ok(cli("cordon", "a")) == "a cordoned\n"
    assert [each["key"] for each in opened.taints()] == ["gpu", "cordon-key"]
    assert ok(cli("cordon", "a")) == "a already cordoned\n"
    assert ok(cli("uncordon", "a")) == "a uncordoned\n"
    assert opened.taints() == [OTHER]
    assert ok(cli("uncordon", "a")) == "a already uncordoned\n"


def test_a_member_is_emptied(cli, opened):
    place(opened)
    assert ok(cli("drain", "a", "--dry-run")) == "web: would be evicted\n"
    assert opened.taints() == [OTHER]
    out = ok(cli("drain", "a", "--timeout", "2m"))
    assert out.splitlines()[0] == "a cordoned"
    assert out.splitlines()[-1] == "a drained"
    assert "web: evicted" in out
    opened.until(lambda: opened.world.bound("web") == ["b", "c"])


def test_a_dry_run_judges_as_a_drain_does(cli, opened):
    place(opened, "held")
    opened.until(lambda: opened.world.view("held")["available"] == 3)
    opened.add(budget("held", minAvailable=3))
    place(opened)
    place(opened, "fixed", policy={"placementType": "PickFixed", "clusterNames": ["a"]})
    place(opened, "stubborn", policy={"placementType": "PickAll", "tolerations": [{"operator": "Exists"}]})
    opened.add(make_placement("waits", {**PICK_ALL}, strategy={"type": "External"}))
    opened.until(lambda: "a" in opened.world.bound("waits"))
    assert ok(cli("drain", "a", "--dry-run")).splitlines() == [
        "fixed: remains: a PickFixed placement cannot be evicted: remove the cluster from spec.policy.clusterNames",
        "held: would wait: budget held has minAvailable 3; 3 of 3 clusters are available",
        "stubborn: remains: it tolerates the taint cordon-key, so it would return",
        "waits: absent: not placed on the member yet",
        "web: would be evicted",
    ]


def test_what_would_come_back_stays_and_what_is_not_there_keeps_nobody_waiting(cli, opened):
    place(opened, "stubborn", policy={"placementType": "PickAll", "tolerations": [{"operator": "Exists"}]})
    opened.add(make_placement("waits", {**PICK_ALL}, strategy={"type": "External"}))
    opened.until(lambda: "a" in opened.world.bound("waits"))
    result = cli("drain", "a", "--timeout", "2m")
    assert result.exit_code == 2
    assert result.stderr == "stubborn remains: it tolerates the taint cordon-key, so it would return\n"
    assert not list(opened.world.store.objects(EVICTION))


def test_what_a_budget_holds_is_said_and_asked_for_again(cli, opened):
    place(opened)
    opened.add(budget("web", minAvailable=3))
    result = cli("drain", "a", "--timeout", "1s")
    assert result.exit_code == 3
    assert "web waiting: " in result.stderr
    assert "minAvailable 3" in result.stderr
    assert len(list(opened.world.store.objects(EVICTION))) <= 1, "those that were refused are removed"
    opened.hub.run(opened.world.change(DISRUPTION_BUDGET, "web", minAvailable=2))
    assert ok(cli("drain", "a", "--timeout", "2m")).splitlines()[-1] == "a drained"


def test_what_cannot_be_evicted_needs_a_person(cli, opened):
    place(opened, policy={"placementType": "PickFixed", "clusterNames": ["a"]})
    place(opened, "other")
    result = cli("drain", "a", "--timeout", "2m")
    assert result.exit_code == 2
    assert "web remains: " in result.stderr
    assert "PickFixed" in result.stderr
    assert "other: evicted" in result.stdout


def test_a_member_that_is_not_there_is_named(cli, opened):
    for command in ("cordon", "uncordon", "drain"):
        result = cli(command, "nobody")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "there is no MemberCluster nobody" in result.stderr
