"""Admission of kinds that only controllers write."""

from typing import Final

from scorer.api import kinds
from scorer.api.family import FAMILIES
from webhook.admission.admitted import ALL, MOST_VALUES_OF_MANIFESTS, NEVER, UPDATE, UPDATE_DELETE, Admitted
from webhook.validation import internal_kinds
from webhook.validation.guard_rails import writes as guard_rail

ENTRIES: Final = (
    *(
        Admitted(family.binding, internal_kinds.validate_resource_binding, guards=(guard_rail.guard_binding_state,))
        for family in FAMILIES
    ),
    *(
        Admitted(family.policy_snapshot, internal_kinds.validate_policy_snapshot, operations=UPDATE_DELETE)
        for family in FAMILIES
    ),
    *(
        Admitted(
            family.resource_snapshot,
            internal_kinds.validate_resource_snapshot,
            operations=UPDATE_DELETE,
            most_values=MOST_VALUES_OF_MANIFESTS,
        )
        for family in FAMILIES
    ),
    Admitted(kinds.OVERRIDE_SNAPSHOT, internal_kinds.validate_cluster_override_snapshot, operations=UPDATE),
    Admitted(kinds.NAMESPACED_OVERRIDE_SNAPSHOT, internal_kinds.validate_resource_override_snapshot, operations=UPDATE),
    Admitted(
        kinds.WORK,
        internal_kinds.validate_work,
        operations=ALL,
        guards=(guard_rail.guard_member_work,),
        most_values=MOST_VALUES_OF_MANIFESTS,
    ),
    Admitted(
        kinds.INTERNAL_MEMBER_CLUSTER,
        internal_kinds.validate_internal_member_cluster,
        operations=ALL,
        guards=(guard_rail.guard_member_work,),
    ),
    Admitted(kinds.APPLIED_WORK, internal_kinds.validate_applied_work, operations=NEVER),
    Admitted(kinds.PLACEMENT_STATUS, internal_kinds.validate_placement_status, operations=NEVER, body="sourceStatus"),
)
