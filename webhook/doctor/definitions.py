"""Checks whether the CustomResourceDefinitions exist, with all that this release needs.

A definition may contain more than harbormaster's own, as the definitions of KubeFleet and of Karpenter do. Only fields
that this release writes or reads must exist.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from scorer.api.crd.compatibility import missing_fields, schema_of, served
from scorer.api.crd.definitions import custom_resource_definitions
from scorer.api.kinds import APPLIED_WORK, NODE_POOL
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import conditions_of, dict_at, name_of
from webhook.doctor.finding import Finding, judged, listed

CHECK: Final = "definitions"
NOT_NEEDED: Final = frozenset({APPLIED_WORK.resource, NODE_POOL.resource})
"""Definitions of members and of Karpenter, which need not exist on a hub."""

ADVICE: Final = (
    "harbormaster crds | kubectl apply --server-side -f -    (with Helm: set crds.*.install=true for the missing ones)"
)


def has_definitions(definitions: Iterable[JsonObject]) -> bool:
    """Return whether any definition that harbormaster needs on a hub exists."""
    desired = {name_of(definition) for definition in custom_resource_definitions()} - NOT_NEEDED
    return not desired.isdisjoint(map(name_of, definitions))


def judge_definitions(definitions: Iterable[JsonObject]) -> Finding:
    """Compare all definitions of a hub with those that this release prints."""
    by_name = {name_of(definition): definition for definition in definitions}
    desired = {name_of(definition): definition for definition in custom_resource_definitions()}
    problems = [
        problem
        for name, definition in desired.items()
        if name in by_name or name not in NOT_NEEDED
        for problem in problems_of(name, by_name.get(name), definition)
    ]
    present = sum(name in by_name for name in desired)
    without = [name for name in sorted(NOT_NEEDED) if name not in by_name]
    well = f"{present} are installed, with all fields that this release needs"
    return judged(
        CHECK, problems, well + (f". Not installed, and not required: {listed(without)}" if without else ""), ADVICE
    )


def problems_of(name: str, stored_definition: JsonObject | None, desired: JsonObject) -> Iterator[str]:
    """Yield the problems of one definition. *stored_definition* is None if it is not installed."""
    if stored_definition is None:
        yield f"{name} is missing"
        return
    if not any(
        condition.get("type") == "Established" and condition.get("status") == "True"
        for condition in conditions_of(stored_definition)
    ):
        yield f"{name} is installed but not served: it is not Established"
    if (scope := dict_at(stored_definition, "spec").get("scope")) != desired["spec"]["scope"]:
        yield f"{name}: its scope is {scope}, not {desired['spec']['scope']}"
        return
    if name == NODE_POOL.resource:  # any version is valid: Karpenter adds and removes fields
        return
    versions = served(stored_definition)
    for version in desired["spec"]["versions"]:
        other = versions.get(version["name"])
        if other is None:
            yield f"{name}: version {version['name']} is not served"
            continue
        if "status" in version.get("subresources", {}) and "status" not in dict_at(other, "subresources"):
            yield f"{name}: version {version['name']} has no subresource status"
        fields_missing = sorted(missing_fields(schema_of(other), schema_of(version)))
        if fields_missing:
            yield f"{name}: version {version['name']} is old: it lacks {listed(fields_missing)}"
