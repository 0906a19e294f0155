"""Inventory of a Cluster of Cluster API.

Source: docs/specifications/upgrade-runs.md 13.1 and 13.3.
"""

from collections.abc import Iterator
from datetime import datetime

from scorer.api.unstructured.documents import dicts_at, label, name_of, text_at
from scorer.upgrade.back_ends.interface import Inventory, Pool
from scorer.upgrade.cluster_api.history import NO_LOOKS, ClusterApiHistory
from scorer.upgrade.cluster_api.progress import at_work, find_problem
from scorer.upgrade.cluster_api.topology import (
    DEPLOYMENT_NAME,
    FAMILY,
    POOL_NAME,
    ClusterApiObjects,
    image_of,
    is_paused,
    replicas_of,
    topology_of,
    versions_of,
)


def inventory_of(
    parts: ClusterApiObjects, variable: str, now: datetime, looks: ClusterApiHistory = NO_LOOKS
) -> Inventory:
    """Return the versions that a Cluster runs.

    A Cluster is busy until Cluster API has rolled out its topology. Workers held at an older version do not count as
    busy, so that a later run can upgrade them.

    Args:
        parts: The Cluster and its objects.
        variable: Variable that carries the node image. If empty, images are unknown and pools have no family. An
            image-only upgrade skips such a Cluster, because it could not be verified.
        now: Current time.
        looks: Result of all polls of the Cluster, including this one.
    """
    waits = list(at_work(parts))
    version = text_at(parts.control_plane, "status", "version").removeprefix("v")
    return Inventory(
        version=version,
        pools=tuple(_pools(parts, variable)),
        ready=not is_paused(parts.cluster) and find_problem(parts, now, looks) is None,
        busy=f"Cluster API: {waits[0]}" if waits else "",
        observed_at=now,
        chained=parts.is_chained,
    )


def _pools(parts: ClusterApiObjects, variable: str) -> Iterator[Pool]:
    workers = topology_of(parts.cluster).get("workers")
    for objects, key, member in (
        (parts.deployments, DEPLOYMENT_NAME, "machineDeployments"),
        (parts.pools, POOL_NAME, "machinePools"),
    ):
        workers_by_name = {text_at(worker, "name"): worker for worker in dicts_at(workers, member)}
        for machines in objects:
            name = label(machines, key) or name_of(machines)
            image = image_of(parts, variable, workers_by_name.get(name)) if variable else ""
            yield Pool(name, versions_of(machines), FAMILY if image else "", image, replicas_of(machines))
