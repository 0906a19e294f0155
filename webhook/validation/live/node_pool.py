"""Live checks on NodePools and node classes: the effects of a write on existing nodes.

They read the NodeClaims of the hub. The work is bounded: at most `MOST_CLAIMS` claims, and neither pods nor prices.
`plan` and `simulate disruption` predict the rest.

Source: docs/specifications/nodepool-disruption.md 2.10.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from pydantic import ValidationError

from scorer.api.kinds import NODE_CLAIM, NODE_POOL, group_kind
from scorer.api.meta import JsonObject, format_time
from scorer.api.node_class import AKS_NODE_CLASS, SUBNET, changed_fields, migrates_subnet
from scorer.api.node_pool import NODE_POOL_LABEL, NodePool
from scorer.api.unstructured.documents import dict_at, is_deleting, label, name_of, spec_of, text_at
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import format_count
from webhook.validation.framework.context import Context, UnknownStateError
from webhook.validation.framework.field import LONGEST_WARNING, SPEC, FieldWarning
from webhook.validation.live.check import LiveCheck, with_names

MOST_CLAIMS: Final = 2_000
"""Maximum number of NodeClaims that a review reads. With more on the hub, the effects are not predicted."""

_TEMPLATE: Final = SPEC / "template"
_DISRUPTION: Final = SPEC / "disruption"
_NAME: Final = FieldPath.of("metadata", "name")


def warn_about_drift(document: JsonObject | None, old: JsonObject | None, context: Context) -> Iterator[FieldWarning]:
    """An update drifts nodes (K-41), more than the budgets allow in a day (K-42), or enables consolidation (K-44)."""
    if document is None or old is None:
        return
    claims = _claims({name_of(old)}, context)
    if not claims:
        return
    from scorer.node_disruption.simulation.pool_changes import consolidates, drift_by_template

    before, after = _read(old), _read(document)
    drift = drift_by_template(before, after, claims, context.now)
    if drift.nodes:
        yield _about(_TEMPLATE, f"drifts {_share(drift.nodes, drift.total)}{_by(drift.done)}", drift.nodes, "K-41")
    if drift.exceeds_day:
        yield _beyond_budget(_DISRUPTION / "budgets", len(drift.nodes), drift.in_a_day)
    if consolidates(after) and not consolidates(before):
        text = f"allows consolidation of {format_count(len(claims), 'node')} even if pods run on them"
        yield FieldWarning(_DISRUPTION / "consolidationPolicy", text, "K-44")


def warn_about_cascade(
    _document: JsonObject | None, old: JsonObject | None, context: Context
) -> Iterator[FieldWarning]:
    """The deletion of a pool deletes its nodes, without budgets (K-43)."""
    from scorer.node_disruption.simulation.pool_changes import node_names

    claims = _claims({name_of(old or {})}, context)
    if claims:
        grace = text_at(spec_of(old or {}), "template", "spec", "terminationGracePeriod")
        end = f" within {grace}" if grace else ""
        text = f"deletes {format_count(len(claims), 'node')} concurrently{end}, without budgets"
        yield _about(_NAME, text, node_names(claims), "K-43")


def warn_about_class_drift(
    document: JsonObject | None, old: JsonObject | None, context: Context
) -> Iterator[FieldWarning]:
    """An update drifts nodes (K-45), more than budgets allow in a day (K-42), or moves nodes to another subnet (K-46).

    The budgets are those of each pool that uses the class.
    """
    if document is None or old is None:
        return
    kind = group_kind(document)
    fields = changed_fields(kind, spec_of(old), spec_of(document))
    if not (fields.hashed or fields.resolved or fields.unknown):
        return
    pools = _pools_of(document, context)
    claims = _claims(pools, context)
    if not claims:
        return
    from scorer.node_disruption.simulation.pool_changes import node_names

    nodes = node_names(claims)
    if kind == AKS_NODE_CLASS.group_kind and migrates_subnet(old, document):
        text = "moves to another valid subnet, which AKS does not support: check the CIDR ranges"
        yield _about(SPEC / SUBNET, text, nodes, "K-46")
    if fields.hashed:
        text = f"drifts {format_count(len(nodes), 'node')} of {format_count(len(pools), 'NodePool')}"
        yield _about(SPEC / fields.hashed[0], text, nodes, "K-45")
    for field in fields.resolved:
        text = "may drift nodes that no longer match what the provider finds"
        yield _about(SPEC / field, text, nodes, "K-45")
    for field in fields.unknown:
        context.check_time()  # per field: names are formatted again
        yield _about(SPEC / field, "may drift nodes: the provider does not document whether it does", nodes, "K-45")
    if fields.hashed:
        yield from _drift_beyond_budgets(pools, claims, context)


def _drift_beyond_budgets(
    pools: Mapping[str, JsonObject], claims: Iterable[JsonObject], context: Context
) -> Iterator[FieldWarning]:
    """Warn about each pool whose budgets do not allow in a day the drift of all *claims* that have not drifted yet."""
    from scorer.node_disruption.simulation.pool_changes import forecast, is_drifted

    by_pool: dict[str, list[JsonObject]] = {}
    for claim in claims:
        by_pool.setdefault(label(claim, NODE_POOL_LABEL), []).append(claim)
    for name, own in sorted(by_pool.items()):
        context.check_time()  # per pool: a calendar takes milliseconds
        budgets = _read(pools[name]).spec.disruption.budgets
        drift = forecast([claim for claim in own if not is_drifted(claim)], len(own), budgets, context.now)
        if drift.exceeds_day:
            yield _beyond_budget(SPEC, len(drift.nodes), drift.in_a_day, f" of NodePool {name}")


UPDATE_CHECKS: Final[tuple[LiveCheck, ...]] = (warn_about_drift,)
DELETION_CHECKS: Final[tuple[LiveCheck, ...]] = (warn_about_cascade,)
CLASS_CHECKS: Final[tuple[LiveCheck, ...]] = (warn_about_class_drift,)


def _claims(pools: Collection[str], context: Context) -> Sequence[JsonObject]:
    """Return the claims of *pools*, except claims that are being deleted.

    Raises:
        UnknownStateError: The claims on the hub are unknown, or more than `MOST_CLAIMS`.
    """
    claims = context.hub.list(NODE_CLAIM)
    if len(claims) > MOST_CLAIMS:
        raise UnknownStateError(NODE_CLAIM)
    return [claim for claim in claims if label(claim, NODE_POOL_LABEL) in pools and not is_deleting(claim)]


def _read(document: JsonObject) -> NodePool:
    try:
        return NodePool.read(document)
    except ValidationError as error:
        raise UnknownStateError(NODE_POOL, name_of(document)) from error


def _pools_of(node_class: JsonObject, context: Context) -> dict[str, JsonObject]:
    """Return the pools that refer to a class, by name. At most `MOST_CLAIMS` pools are read."""
    pools: dict[str, JsonObject] = {}
    for document in islice(context.hub.list(NODE_POOL), MOST_CLAIMS):
        reference = dict_at(document, "spec", "template", "spec", "nodeClassRef")
        named = (text_at(reference, "group"), text_at(reference, "kind"), text_at(reference, "name"))
        if named == (*group_kind(node_class), name_of(node_class)):
            pools[name_of(document)] = document
    return pools


def _share(nodes: Sequence[str], total: int) -> str:
    return f"{len(nodes)} of {format_count(total, 'node')}"


def _by(done: datetime | None) -> str:
    return (
        ", not all replaced within two weeks"
        if done is None
        else f", all replaced at {format_time(done)} at the earliest"
    )


def _beyond_budget(field: FieldPath, count: int, allowed: int | None, owner: str = "") -> FieldWarning:
    text = f"drift of {format_count(count, 'node')}{owner} exceeds the {allowed} that budgets allow in a day"
    return FieldWarning(field, text, "K-42")


def _about(field: FieldPath, text: str, names: Sequence[str], rule: str) -> FieldWarning:
    return FieldWarning(field, with_names(text, names, LONGEST_WARNING - len(str(field)) - 2), rule)
