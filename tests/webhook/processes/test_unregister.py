"""What ``harbormaster unregister`` removes and counts; `e2e/packaging/test_charts_accepted.py` asks a real hub."""

import pytest

from webhook.kube.ports import ForbiddenError, NotFoundError, NotServedError
from webhook.processes.unregister import unregister

HOOKS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations/quay"
PLACEMENTS = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements"
REST = [
    "/apis/placement.kubernetes-fleet.io/v1beta1/resourceplacements",
    "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters",
]


class Hub:
    """What a hub has at which path, in the place of a `webhook.kube.client.api_server.ApiServer`."""

    def __init__(self):
        self.there = {HOOKS.format(kind): {} for kind in ("validating", "mutating")}
        self.there |= {path: {"metadata": {"resourceVersion": "1"}, "items": []} for path in (PLACEMENTS, *REST)}
        self.refusals = {}

    async def request(self, method, path, *, query=None, accept=""):
        if refusal := self.refusals.get(str(path)):
            raise refusal
        if str(path) not in self.there:
            raise NotFoundError("it is not there")
        if method == "DELETE":
            return self.there.pop(str(path))
        assert "as=PartialObjectMetadataList" in accept
        start, items = int(query.get("continue", 0)), self.there[str(path)]["items"]
        end = start + int(query["limit"])
        metadata = {"resourceVersion": "1", **({"continue": str(end)} if end < len(items) else {})}
        return {"metadata": metadata, "items": items[start:end]}


@pytest.fixture
def hub():
    return Hub()


async def words(hub):
    return list((await unregister(hub, "quay")).lines())


async def test_both_are_removed_and_a_second_time_finds_none(hub):
    assert await words(hub) == [
        "ValidatingWebhookConfiguration/quay removed",
        "MutatingWebhookConfiguration/quay removed",
    ]
    assert await words(hub) == [
        "ValidatingWebhookConfiguration/quay not found",
        "MutatingWebhookConfiguration/quay not found",
    ]


async def test_what_waits_for_a_loop_is_counted(hub):
    finalizers = [["kubernetes-fleet.io/crp-cleanup"], [], ["example.com/hold"]]
    hub.there[PLACEMENTS]["items"] = [
        {"metadata": {"name": f"p{number}", "finalizers": held}} for number, held in enumerate(finalizers)
    ]
    assert (await words(hub))[2:] == [
        "ClusterResourcePlacement: 3 remaining, 2 with finalizers, which cannot be deleted while no loop runs"
    ]


async def test_overrides_runs_and_budgets_are_counted_and_what_the_loop_makes_is_not(hub):
    group = "/apis/placement.kubernetes-fleet.io/v1beta1"
    for plural in ("clusterresourceoverrides", "stagedupdateruns", "works", "clusterresourcebindings"):
        hub.there[f"{group}/{plural}"] = {"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "a"}}]}
    budgets = {"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": name}} for name in "ab"]}
    hub.there[f"{group}/clusterresourceplacementdisruptionbudgets"] = budgets
    assert (await words(hub))[2:] == [
        "StagedUpdateRun: 1 remaining",
        "ClusterResourceOverride: 1 remaining",
        "ClusterResourcePlacementDisruptionBudget: 2 remaining",
    ]


async def test_all_pages_are_counted_from_metadata_alone(hub):
    hub.there[PLACEMENTS]["items"] = [{"metadata": {"name": f"p{number}"}} for number in range(1200)]
    assert (await words(hub))[2:] == ["ClusterResourcePlacement: 1200 remaining"]


async def test_what_may_not_be_listed_is_said_and_what_is_not_served_is_not(hub):
    hub.refusals = {PLACEMENTS: ForbiddenError("no"), REST[0]: NotServedError("no such kind")}
    assert (await words(hub))[2:] == ["ClusterResourcePlacement: you may not list them, so they are not counted"]


async def test_one_that_may_not_be_removed_is_an_error(hub):
    hub.refusals = {HOOKS.format("mutating"): ForbiddenError("no")}
    with pytest.raises(ForbiddenError):
        await unregister(hub, "quay")
