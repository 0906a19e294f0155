"""How far the machines of a control plane, a MachineDeployment or a MachinePool are with what its spec asks for.

The numbers in a status count only when its controller has seen the spec. Of several numbers that say how many machines
are as the spec asks, the lowest counts: ``upToDateReplicas`` sums up what each machine says of itself, which comes
later than the change; the older ``updatedReplicas`` counts the machines made from the new template.

Source: upgrade-runs.md 13.3; Cluster API v1.13, internal/controllers/machinedeployment and machinepool.
"""

from collections.abc import Mapping
from typing import Any

from scorer.api.unstructured.documents import conditions_of, dict_at, dicts_at, generation_of, spec_of, status_of


def is_seen(machines: Mapping[str, Any], *, unsaid: bool = False) -> bool:
    """Say whether the controller of these machines has seen what they are to be.

    Args:
        machines: The object.
        unsaid: What counts where it does not say that: Cluster API itself always does, other makers of control planes
            need not.
    """
    observed_generation = _number(status_of(machines), "observedGeneration")
    return unsaid if observed_generation is None else observed_generation >= generation_of(machines)


def is_rolling(machines: Mapping[str, Any]) -> bool:
    """Say whether there are machines that are not as the spec asks; False where nothing is said of that."""
    status = status_of(machines)
    present, updated = _number(status, "replicas"), _updated(status)
    return present is not None and updated is not None and updated < present


def is_complete(machines: Mapping[str, Any]) -> bool:
    """Say whether there are as many machines as the spec asks for, all of them as it asks."""
    replicas, present = _number(spec_of(machines), "replicas"), _number(status_of(machines), "replicas")
    updated = _updated(status_of(machines))
    if replicas is None:
        return not is_rolling(machines)
    return (replicas if present is None else present) == replicas and (updated is None or updated >= replicas)


def is_unavailable(machines: Mapping[str, Any]) -> bool:
    """Say whether these machines report, by a condition of any version of the API, that they cannot be used."""
    older = dicts_at(machines, "status", "deprecated", "v1beta1", "conditions")
    return any(
        condition.get("type") in ("Available", "Ready") and condition.get("status") == "False"
        for condition in (*conditions_of(machines), *older)
    )


def _updated(status: Mapping[str, Any]) -> int | None:
    places = (status, dict_at(status, "deprecated", "v1beta1"), dict_at(status, "v1beta2"))
    counts = (_number(place, name) for place in places for name in ("updatedReplicas", "upToDateReplicas"))
    return min((count for count in counts if count is not None), default=None)


def _number(document: Mapping[str, Any], name: str) -> int | None:
    return number if type(number := document.get(name)) is int else None
