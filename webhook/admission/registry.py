"""The registry of admission: per kind, the registered writes, the defaults and the rules.

Webhook configurations, the documentation of rules and the answers to reviews are all made from this table.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from scorer.api import kinds
from scorer.api.family import CLUSTER, FAMILIES, NAMESPACED
from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.api.node_class import NODE_CLASSES
from webhook.admission import impact, taking_over
from webhook.defaulting import approval_request as approval_defaults
from webhook.defaulting import node_pool as node_pool_defaults
from webhook.defaulting import placement as placement_defaults
from webhook.defaulting import upgrade as upgrade_defaults
from webhook.defaulting.defaulted import DefaultedObject, DefaultingContext
from webhook.validation import internal_kinds, member_cluster, node_pool, removal_annotations
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import FieldWarning
from webhook.validation.framework.reading import Finding
from webhook.validation.guard_rails import deletions as deletion_guard
from webhook.validation.guard_rails import writes as guard_rail
from webhook.validation.guard_rails.writes import GuardRail
from webhook.validation.live import eviction as live_eviction
from webhook.validation.live import member_cluster as live_member_cluster
from webhook.validation.live import node_pool as live_node_pool
from webhook.validation.live import override as live_override
from webhook.validation.live import placement as live_placement
from webhook.validation.live import selected_objects
from webhook.validation.live import staged_update as live_staged_update
from webhook.validation.live import upgrade as live_upgrade
from webhook.validation.live.check import LiveCheck
from webhook.validation.placement import disruption_budget, envelope, eviction, override, placement
from webhook.validation.staged_update import approval_request
from webhook.validation.staged_update import run as staged_run
from webhook.validation.staged_update import strategy as staged_strategy
from webhook.validation.upgrade import catalog as upgrade_catalog
from webhook.validation.upgrade import gate as upgrade_gate
from webhook.validation.upgrade import profile as upgrade_profile
from webhook.validation.upgrade import request as upgrade_request
from webhook.validation.upgrade import run as upgrade_run
from webhook.validation.upgrade import strategy as upgrade_strategy
from webhook.validation.upgrade import window as upgrade_window

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
Validate: TypeAlias = Callable[[JsonObject, JsonObject | None, Context], Iterator[Finding]]
Default: TypeAlias = Callable[[JsonObject, JsonObject | None], DefaultedObject]
Stamp: TypeAlias = Callable[[JsonObject, JsonObject | None, DefaultingContext], JsonObject]

MOST_VALUES: Final = 10_000
"""Maximum number of JSON values in an object without its status: far more than users write."""
MOST_COLLECTED: Final = 1000
"""Maximum number of collected findings: far more than an answer shows, far fewer than a hostile object may have."""
MOST_VALUES_OF_MANY: Final = 20_000
"""As `MOST_VALUES`, for kinds whose schema allows thousands of objects: groups in stages, versions in regions."""
MOST_VALUES_OF_MANIFESTS: Final = 50_000
"""As `MOST_VALUES`, for kinds with manifests, whose values no rule reads. Manifests of 1.5 MB have fewer."""

_CU: Final = frozenset[Operation]({"CREATE", "UPDATE"})
_CUD: Final = frozenset[Operation]({"CREATE", "UPDATE", "DELETE"})
_C: Final = frozenset[Operation]({"CREATE"})
_D: Final = frozenset[Operation]({"DELETE"})
_U: Final = frozenset[Operation]({"UPDATE"})
_UD: Final = frozenset[Operation]({"UPDATE", "DELETE"})
_NEVER: Final = frozenset[Operation]()


@dataclass(frozen=True, slots=True)
class Admitted:
    """Admission of one kind.

    Args:
        kind: The kind.
        validate: Yields errors and warnings about an object. None: disabled, only guard rails apply.
        default: Sets defaults. None: disabled, the schema has all defaults.
        operations: Operations that the validating hook is registered for (serving.md 1.3).
        body: Field with the user's intent. An update that does not change it is not validated again.
        judged_whole: Whether an update is validated as a whole, not only its changes (serving.md 1.8 part B).
        refuse_deletion: Returns why an object must not be deleted now, empty if it may be.
        warn_about_deletion: Yields warnings about the effects of a deletion.
        warn_about_status: Yields warnings about a write of the status subresource.
        default_status: Changes a write of the status subresource before it is validated. None: disabled.
        validate_status: Yields errors that refuse a write of the status subresource.
        validate_deleted: Yields errors that refuse an update of an object that is being deleted.
        stamp: Sets values that depend on the request, such as a date or a token. Runs after the defaults.
        guards: Yield why the user must not make a write, in this order. Also run for subresources and deletions.
        live: Checks of a creation, or of an update of the body, against the rest of the hub, most important first.
        live_on_deletion: Checks of a deletion against the rest of the hub.
        lasting: The live checks whose warnings hold for the stored object, too. Empty: they only concern writes.
        most_values: An object with more JSON values is refused without validation.
    """

    kind: Kind
    validate: Validate | None = None
    default: Default | None = None
    operations: frozenset[Operation] = _CU
    body: str = "spec"
    judged_whole: bool = False
    refuse_deletion: Callable[[JsonObject, Context], str] | None = None
    warn_about_deletion: Callable[[JsonObject], Iterator[FieldWarning]] | None = None
    warn_about_status: Callable[[JsonObject], Iterator[FieldWarning]] | None = None
    default_status: Default | None = None
    validate_status: Validate | None = None
    validate_deleted: Validate | None = None
    stamp: Stamp | None = None
    guards: tuple[GuardRail, ...] = ()
    live: tuple[LiveCheck, ...] = ()
    live_on_deletion: tuple[LiveCheck, ...] = ()
    lasting: tuple[LiveCheck, ...] = ()
    most_values: int = MOST_VALUES


_ENTRIES: Final = (
    *(
        Admitted(
            family.placement,
            validate,
            placement_defaults.default,
            _CUD,
            warn_about_deletion=placement.warn_about_deletion,
            validate_deleted=removal_annotations.validate_removal_annotations,
            live=(*impact.CHECKS, *live_placement.CHECKS, *selected_objects.CHECKS, *taking_over.CHECKS),
            lasting=(*live_placement.CHECKS, *selected_objects.CHECKS),
        )
        for family, validate in (
            (CLUSTER, placement.validate_cluster_placement),
            (NAMESPACED, placement.validate_resource_placement),
        )
    ),
    *(
        Admitted(
            family.strategy,
            staged_strategy.validate,
            operations=_CUD,
            live=live_staged_update.STRATEGY_CHECKS,
            live_on_deletion=live_staged_update.STRATEGY_DELETION_CHECKS,
        )
        for family in FAMILIES
    ),
    *(
        Admitted(
            family.run,
            staged_run.validate,
            operations=_CUD,
            warn_about_deletion=staged_run.warn_about_deletion,
            live=live_staged_update.RUN_CHECKS,
        )
        for family in FAMILIES
    ),
    *(
        Admitted(
            family.approval_request,
            approval_request.validate,
            default_status=approval_defaults.default_status,
            operations=_C,
            warn_about_status=approval_request.warn_about_status,
            guards=(guard_rail.guard_approval,),
        )
        for family in FAMILIES
    ),
    *(
        Admitted(family.override, validate, live=live_override.CHECKS, lasting=live_override.CHECKS)
        for family, validate in (
            (CLUSTER, override.validate_cluster_override),
            (NAMESPACED, override.validate_resource_override),
        )
    ),
    Admitted(
        kinds.ENVELOPE,
        envelope.validate_cluster_envelope,
        operations=_CUD,
        body="data",
        most_values=MOST_VALUES_OF_MANIFESTS,
    ),
    Admitted(
        kinds.NAMESPACED_ENVELOPE,
        envelope.validate_resource_envelope,
        operations=_CUD,
        body="data",
        most_values=MOST_VALUES_OF_MANIFESTS,
    ),
    Admitted(kinds.DISRUPTION_BUDGET, disruption_budget.validate, live=live_eviction.BUDGET_CHECKS),
    Admitted(kinds.EVICTION, eviction.validate, operations=_C, live=live_eviction.EVICTION_CHECKS),
    Admitted(
        kinds.MEMBER_CLUSTER,
        member_cluster.validate,
        operations=_CUD,
        refuse_deletion=member_cluster.refuse_deletion,
        guards=(guard_rail.guard_member_cluster, guard_rail.guard_identity),
        live=live_member_cluster.CHECKS,
        live_on_deletion=live_member_cluster.DELETION_CHECKS,
    ),
    Admitted(
        kinds.NODE_POOL,
        node_pool.validate,
        node_pool_defaults.default,
        _CUD,
        judged_whole=True,
        live=live_node_pool.UPDATE_CHECKS,
        live_on_deletion=live_node_pool.DELETION_CHECKS,
    ),
    *(
        Admitted(
            kind,
            node_pool.accept_node_class,
            operations=_U,
            judged_whole=True,
            live=live_node_pool.CLASS_CHECKS,
            most_values=MOST_VALUES_OF_MANIFESTS,
        )
        for kind in NODE_CLASSES
    ),
    *(
        Admitted(family.binding, internal_kinds.validate_resource_binding, guards=(guard_rail.guard_binding_state,))
        for family in FAMILIES
    ),
    *(Admitted(family.policy_snapshot, internal_kinds.validate_policy_snapshot, operations=_UD) for family in FAMILIES),
    *(
        Admitted(
            family.resource_snapshot,
            internal_kinds.validate_resource_snapshot,
            operations=_UD,
            most_values=MOST_VALUES_OF_MANIFESTS,
        )
        for family in FAMILIES
    ),
    Admitted(kinds.OVERRIDE_SNAPSHOT, internal_kinds.validate_cluster_override_snapshot, operations=_U),
    Admitted(kinds.NAMESPACED_OVERRIDE_SNAPSHOT, internal_kinds.validate_resource_override_snapshot, operations=_U),
    Admitted(
        kinds.WORK,
        internal_kinds.validate_work,
        operations=_CUD,
        guards=(guard_rail.guard_member_work,),
        most_values=MOST_VALUES_OF_MANIFESTS,
    ),
    Admitted(
        kinds.INTERNAL_MEMBER_CLUSTER,
        internal_kinds.validate_internal_member_cluster,
        operations=_CUD,
        guards=(guard_rail.guard_member_work,),
    ),
    Admitted(kinds.APPLIED_WORK, internal_kinds.validate_applied_work, operations=_NEVER),
    Admitted(kinds.PLACEMENT_STATUS, internal_kinds.validate_placement_status, operations=_NEVER, body="sourceStatus"),
    Admitted(kinds.VOLUME_CLAIM, operations=_D),
    Admitted(kinds.POD, operations=_C, guards=(guard_rail.guard_workload,)),
    Admitted(guard_rail.REPLICA_SET, operations=_C, guards=(guard_rail.guard_workload,)),
    Admitted(kinds.POD_DISRUPTION_BUDGET, operations=_C, guards=(guard_rail.guard_pod_disruption_budget,)),
    Admitted(
        kinds.CUSTOM_RESOURCE_DEFINITION,
        operations=_CUD,
        guards=(guard_rail.guard_definition, deletion_guard.guard_definition_in_use),
    ),
    Admitted(
        kinds.NAMESPACE,
        operations=_CUD,
        guards=(
            guard_rail.guard_namespace,
            deletion_guard.guard_member_namespace,
            deletion_guard.guard_own_namespace,
        ),
    ),
    Admitted(
        kinds.UPGRADE_STRATEGY,
        upgrade_strategy.validate,
        judged_whole=True,
        live=live_upgrade.STRATEGY_CHECKS,
        most_values=MOST_VALUES_OF_MANY,
    ),
    Admitted(
        kinds.UPGRADE_RUN,
        upgrade_run.validate,
        upgrade_defaults.default_run,
        judged_whole=True,
        stamp=upgrade_defaults.stamp_run,
        live=live_upgrade.RUN_CHECKS,
        most_values=MOST_VALUES_OF_MANY,
    ),
    Admitted(
        kinds.UPGRADE_GATE,
        upgrade_gate.validate,
        operations=_CUD,
        judged_whole=True,
        validate_status=upgrade_gate.validate_status,
        guards=(upgrade_gate.guard,),
    ),
    Admitted(kinds.UPGRADE_PROFILE, upgrade_profile.validate, judged_whole=True),
    Admitted(
        kinds.MAINTENANCE_WINDOW,
        upgrade_window.validate,
        upgrade_defaults.default_window,
        judged_whole=True,
        stamp=upgrade_defaults.stamp_window,
    ),
    Admitted(kinds.VERSION_CATALOG, upgrade_catalog.validate, judged_whole=True, most_values=MOST_VALUES_OF_MANY),
    Admitted(
        kinds.UPGRADE_REQUEST,
        upgrade_request.validate,
        judged_whole=True,
        validate_status=upgrade_request.validate_status,
    ),
)

REGISTRY: Final[Mapping[tuple[str, str], Admitted]] = {entry.kind.group_kind: entry for entry in _ENTRIES}
"""All kinds with rules, by group and kind."""


def find(group: str, version: str, kind: str) -> Admitted | None:
    """Return the entry for a kind, or None if it has no rules in this version."""
    entry = REGISTRY.get((group, kind))
    return entry if entry is not None and version in entry.kind.versions else None
