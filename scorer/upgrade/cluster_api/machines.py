"""Rollout progress of a control plane, a MachineDeployment or a MachinePool.

The counts in a status are valid only if its controller has observed the spec. If there are several counts of up-to-date
machines, the lowest one wins: ``upToDateReplicas`` aggregates a condition of each machine, which lags behind the
change. The older ``updatedReplicas`` counts the machines made from the new template.

Source: docs/specifications/upgrade-runs.md 13.3; Cluster API v1.13, internal/controllers/machinedeployment and
machinepool.
"""

from collections.abc import Mapping
from typing import Any

from scorer.api.unstructured.documents import conditions_of, dict_at, dicts_at, generation_of, spec_of, status_of


def is_seen(machines: Mapping[str, Any], *, unsaid: bool = False) -> bool:
    """Return whether the controller of these machines has observed their spec.

    Args:
        machines: The object.
        unsaid: Result if there is no observedGeneration. Cluster API always sets it. Other control plane providers may
            omit it.
    """
    observed_generation = _number(status_of(machines), "observedGeneration")
    return unsaid if observed_generation is None else observed_generation >= generation_of(machines)


def is_rolling(machines: Mapping[str, Any]) -> bool:
    """Return whether some machines are outdated. False if the status has no counts."""
    status = status_of(machines)
    present, updated = _number(status, "replicas"), _updated_count(status)
    return present is not None and updated is not None and updated < present


def is_complete(machines: Mapping[str, Any]) -> bool:
    """Return whether the spec's number of machines exists and all of them are up to date.

    Counts that the status lacks are assumed to agree. Without a number in the spec, no machine may be outdated.
    """
    replicas, present = _number(spec_of(machines), "replicas"), _number(status_of(machines), "replicas")
    updated = _updated_count(status_of(machines))
    if replicas is None:
        return not is_rolling(machines)
    return (replicas if present is None else present) == replicas and (updated is None or updated >= replicas)


def is_unavailable(machines: Mapping[str, Any]) -> bool:
    """Return whether a condition of any API version reports these machines as unavailable."""
    older = dicts_at(machines, "status", "deprecated", "v1beta1", "conditions")
    return any(
        condition.get("type") in ("Available", "Ready") and condition.get("status") == "False"
        for condition in (*conditions_of(machines), *older)
    )


def _updated_count(status: Mapping[str, Any]) -> int | None:
    places = (status, dict_at(status, "deprecated", "v1beta1"), dict_at(status, "v1beta2"))
    counts = (_number(place, name) for place in places for name in ("updatedReplicas", "upToDateReplicas"))
    return min((count for count in counts if count is not None), default=None)


def _number(document: Mapping[str, Any], name: str) -> int | None:
    return number if type(number := document.get(name)) is int else None
