"""Admission of kinds of Kubernetes."""

from typing import Final

from scorer.api import kinds
from webhook.admission.admitted import ALL, CREATE, DELETE, Admitted
from webhook.validation.guard_rails import deletions as deletion_guard
from webhook.validation.guard_rails import writes as guard_rail

ENTRIES: Final = (
    Admitted(kinds.VOLUME_CLAIM, operations=DELETE),
    Admitted(kinds.POD, operations=CREATE, guards=(guard_rail.guard_workload,)),
    Admitted(guard_rail.REPLICA_SET, operations=CREATE, guards=(guard_rail.guard_workload,)),
    Admitted(kinds.POD_DISRUPTION_BUDGET, operations=CREATE, guards=(guard_rail.guard_pod_disruption_budget,)),
    Admitted(
        kinds.CUSTOM_RESOURCE_DEFINITION,
        operations=ALL,
        guards=(guard_rail.guard_definition, deletion_guard.guard_definition_in_use),
    ),
    Admitted(
        kinds.NAMESPACE,
        operations=ALL,
        guards=(
            guard_rail.guard_namespace,
            deletion_guard.guard_member_namespace,
            deletion_guard.guard_own_namespace,
        ),
    ),
)
