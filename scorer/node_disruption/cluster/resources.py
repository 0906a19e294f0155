"""Resources that a pod requests and a node provides, as whole numbers, calculated as in the scheduler.

Source: Kubernetes v1.36 ``component-helpers/resource/helpers.go`` and ``pkg/scheduler/framework/types.go``.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import conditions_of, dict_at, dicts_at, spec_of, status_of
from scorer.api.values.quantity import NANO, parse_quantity

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"

_PLAIN: Final = frozenset((CPU, MEMORY, "ephemeral-storage"))
_PREFIXED: Final = ("hugepages-", "attachable-volumes-")
_POD_LEVEL: Final = frozenset((CPU, MEMORY))
_LARGEST: Final = 2**50
"""Cap for amounts, so that the sum over all pods of a node fits into 64 bits."""
_MILLI: Final = NANO // 1000


def amounts(resources: JsonObject) -> dict[str, int]:
    """Parse a list of resources: cpu in millicores, everything else in whole units, both rounded up.

    Invalid quantities count as absent.
    """
    return _round_up(_exact(resources))


def pod_requests(document: JsonObject) -> dict[str, int]:
    """Return the resource requests of a pod, with ``pods`` as 1."""
    return _whole_units(_sum_requests(spec_of(document), {}, {}))


def pod_usage(document: JsonObject, requests: dict[str, int]) -> dict[str, int]:
    """Return the resources in use by a pod: more than its *requests* while a downsize is pending."""
    status = status_of(document)
    statuses = {
        container_status["name"]: container_status
        for key in ("containerStatuses", "initContainerStatuses")
        for container_status in dicts_at(status, key)
        if isinstance(container_status.get("name"), str) and "resources" in container_status
    }
    if not statuses and "resources" not in status:
        return requests
    infeasible = any(
        condition.get("type") == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in conditions_of(document)
    )
    usage = _whole_units(_sum_requests(spec_of(document), statuses, status, infeasible))
    return requests if usage == requests else usage


def total(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add amounts up by resource."""
    totals: dict[str, int] = {}
    for part in parts:
        for resource, amount in part.items():
            totals[resource] = totals.get(resource, 0) + amount
    return totals


def _whole_units(exact: Mapping[str, int]) -> dict[str, int]:
    counted_resources = {resource: amount for resource, amount in exact.items() if _is_counted(resource)}
    return {**_round_up(counted_resources), PODS: 1}


def _is_counted(resource: str) -> bool:
    """Return whether the scheduler considers a requested resource."""
    return resource in _PLAIN or "/" in resource or resource.startswith(_PREFIXED)


def _sum_requests(
    spec: JsonObject, statuses: Mapping[str, JsonObject], status: JsonObject, infeasible: bool = False
) -> dict[str, int]:
    """Return the requests of all containers, or of the pod as a whole, plus overhead, in units of 10^-9."""
    running: dict[str, int] = {}
    for container in dicts_at(spec, "containers"):
        _add(running, _container_requests(container, statuses, infeasible))
    init_requests: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in dicts_at(spec, "initContainers"):
        is_sidecar = container.get("restartPolicy") == "Always"
        needs = _container_requests(container, statuses if is_sidecar else {}, infeasible)
        if is_sidecar:
            _add(running, needs)
            _add(sidecars, needs)
            needs = sidecars
        else:
            needs = dict(needs)
            _add(needs, sidecars)
        _raise(init_requests, needs)
    _raise(running, init_requests)
    running |= _pod_requests(spec, status, infeasible)
    _add(running, _exact(dict_at(spec, "overhead")))
    return running


def _pod_requests(spec: JsonObject, status: JsonObject, infeasible: bool) -> dict[str, int]:
    """Return the pod-level requests, which override those of its containers."""
    requests = _exact(dict_at(spec, "resources", "requests"))
    if "resources" in status:
        actual = _exact(dict_at(status, "resources", "requests"))
        requests = {
            key: amount for key, amount in _effective(requests, actual, status, infeasible).items() if key in requests
        }
    return {
        resource: amount
        for resource, amount in requests.items()
        if resource in _POD_LEVEL or resource.startswith("hugepages-")
    }


def _container_requests(container: JsonObject, statuses: Mapping[str, JsonObject], infeasible: bool) -> dict[str, int]:
    resources = dict_at(container, "resources")
    requests = _exact(dict_at(resources, "requests"))
    if limits := dict_at(resources, "limits"):
        requests = {**_exact(limits), **requests}  # as the API server fills it in
    status = statuses.get(str(container.get("name"))) if statuses else None
    if status is None:
        return requests
    return _effective(requests, _exact(dict_at(status, "resources", "requests")), status, infeasible)


def _effective(
    requests: dict[str, int], actual: dict[str, int], status: JsonObject, infeasible: bool
) -> dict[str, int]:
    """Return the maximum of the requested, actuated and allocated amounts, without the requested ones if infeasible."""
    effective = dict(actual) if infeasible else dict(requests)
    _raise(effective, actual)
    _raise(effective, _exact(dict_at(status, "allocatedResources")))
    return effective


def _add(amount: dict[str, int], more: Mapping[str, int]) -> None:
    for resource, value in more.items():
        amount[resource] = amount.get(resource, 0) + value


def _raise(amount: dict[str, int], least: Mapping[str, int]) -> None:
    for resource, value in least.items():
        amount[resource] = max(value, amount.get(resource, value))


def _exact(resources: JsonObject) -> dict[str, int]:
    """Parse a list of resources in units of 10^-9, which represents every quantity exactly."""
    quantities = {}
    for resource, value in resources.items():
        if (nano := _nano(value)) is not None:
            quantities[resource] = nano
    return quantities


def _nano(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        return parse_quantity(value if isinstance(value, str) else str(value)).nano
    except ValueError:
        return None


def _round_up(exact: Mapping[str, int]) -> dict[str, int]:
    return {
        resource: max(-_LARGEST, min(_LARGEST, -(-nano // (_MILLI if resource == CPU else NANO))))
        for resource, nano in exact.items()
    }
