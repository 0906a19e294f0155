"""Live checks on evictions and disruption budgets.

Source: docs/specifications/placement-api.md 10.3; docs/specifications/rollout.md 19.2.
"""

from collections.abc import Iterator
from typing import Final, TypeGuard

from scorer.api.family import CLUSTER
from scorer.api.kinds import PLACEMENT
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dict_at, name_of, text_at, uid_of
from scorer.api.values.field_path import FieldPath
from scorer.api.values.int_or_percent import percent, scaled_up
from scorer.api.values.quoting import quote
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import SPEC, FieldWarning
from webhook.validation.framework.relations import children, cluster_of
from webhook.validation.live.check import LiveCheck


def warn_about_target(document: JsonObject | None, old: JsonObject | None, context: Context) -> Iterator[FieldWarning]:
    """A new eviction names a missing placement, or a cluster without that placement: it becomes invalid (X-83)."""
    placement, cluster = text_at(document, "spec", "placementName"), text_at(document, "spec", "clusterName")
    if old is not None or not placement:
        return
    stored = context.hub.get(PLACEMENT, placement)
    if stored is None:
        message = f"there is no ClusterResourcePlacement {quote(placement)}: the eviction becomes invalid"
        yield FieldWarning(SPEC / "placementName", message, "X-83")
        return
    bindings = children(CLUSTER.binding, placement, "", context)
    if not bindings and not uid_of(stored):  # only in files: not scheduled yet
        return
    if all(cluster_of(binding) != cluster for binding in bindings):
        message = f"the placement is not on {quote(cluster)}: the eviction becomes invalid"
        yield FieldWarning(SPEC / "clusterName", message, "X-83")


def warn_about_idle_budget(
    document: JsonObject | None, _old: JsonObject | None, context: Context
) -> Iterator[FieldWarning]:
    """A budget has no effect until a ClusterResourcePlacement has its name (X-81)."""
    name = name_of(document or {})
    if name and context.hub.get(PLACEMENT, name) is None:
        message = "no ClusterResourcePlacement of this name exists yet: the budget has no effect"
        yield FieldWarning(FieldPath.of("metadata", "name"), message, "X-81")


def warn_about_closed_budget(
    document: JsonObject | None, _old: JsonObject | None, context: Context
) -> Iterator[FieldWarning]:
    """A budget should be able to allow the eviction of a working placement (X-82)."""
    most, least = (dict_at(document, "spec").get(name) for name in ("maxUnavailable", "minAvailable"))
    closed = "the budget only allows evictions where the placement has failed or reports differences"
    if _is_limit(most) and (most == 0 or percent(most) == 0):
        yield FieldWarning(SPEC / "maxUnavailable", closed, "X-82")
    if not _is_limit(least):
        return
    if percent(least) == 100:
        yield FieldWarning(SPEC / "minAvailable", closed, "X-82")
        return
    policy = dict_at(context.hub.get(PLACEMENT, name_of(document or {})), "spec", "policy")
    requested = policy.get("numberOfClusters")
    if (
        policy.get("placementType") == "PickN"
        and isinstance(requested, int)
        and scaled_up(least, requested) >= requested
    ):
        yield FieldWarning(SPEC / "minAvailable", f"the placement requests {requested}: {closed}", "X-82")


def _is_limit(value: object) -> TypeGuard[int | str]:
    return isinstance(value, int) or (isinstance(value, str) and percent(value) is not None)


EVICTION_CHECKS: Final[tuple[LiveCheck, ...]] = (warn_about_target,)
BUDGET_CHECKS: Final[tuple[LiveCheck, ...]] = (warn_about_idle_budget, warn_about_closed_budget)
