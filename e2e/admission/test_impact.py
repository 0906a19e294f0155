"""What an update would take away, said by a real API server to a real client before it happens (X-26)."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from e2e.controlplane.cluster import ApiError, Cluster
from e2e.controlplane.process import PATIENCE
from e2e.controlplane.stored import storage_key, with_server_fields
from e2e.fleet.objects import MERGE
from e2e.placements import PLACEMENTS
from scorer.api.meta import format_time
from tests.builders.binding import make_binding
from tests.builders.placement import make_placement
from tests.webhook.validation.live_objects import make_member, make_policy_snapshot, pick_n

NAMES = ("bravelion", "dozyowl", "jumpingcat")


@pytest.fixture
def placed(hub: Cluster) -> Iterator[str]:
    """Three members that are well, and a placement that holds all of them; returns its path."""
    placement = make_placement("shop", pick_n(3))
    members = [make_member(name) for name in NAMES]
    bindings = [make_binding("shop", name) for name in NAMES]
    status = {"placementStatuses": [{"clusterName": name} for name in NAMES]}
    documents = [*members, {**placement, "status": status}, make_policy_snapshot(placement), *bindings]
    text = json.dumps(documents).replace("2026-01-01T00:00:00Z", format_time(datetime.now(UTC)))
    written = [(storage_key(hub, document), with_server_fields(document)) for document in json.loads(text)]
    for key, document in written:
        hub.etcd.put(key, document)
    yield f"{PLACEMENTS}/shop?dryRun=All"
    for key, _ in written:
        hub.etcd.delete(key)


def warnings_of(hub: Cluster, path: str, wanted: int) -> list[str]:
    """Ask for so many clusters, until the replica has seen the objects of the test."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            _, warnings = hub.request(
                "PATCH", path, {"spec": {"policy": {"numberOfClusters": wanted}}}, content_type=MERGE, user="alice"
            )
        except ApiError as error:
            assert error.code == 404, str(error)
            warnings = []
        if any("removes the placement from" in warning for warning in warnings) or time.monotonic() > end:
            return warnings
        time.sleep(0.2)


def test_an_update_that_leaves_clusters_names_them(hub, placed):
    [warning] = [text for text in warnings_of(hub, placed, 1) if "removes the placement from" in text]
    assert "removes the placement from 2 of 3 clusters: " in warning
    assert sum(name in warning for name in NAMES) == 2
    more, _ = hub.request("PATCH", placed, {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE, user="alice")
    assert more["spec"]["policy"]["numberOfClusters"] == 3
