"""Admission of what changes, wraps or evicts placed objects: overrides, envelopes, disruption budgets, evictions."""

from typing import Final

from scorer.api import kinds
from scorer.api.family import CLUSTER, NAMESPACED
from webhook.admission.admitted import ALL, CREATE, MOST_VALUES_OF_MANIFESTS, Admitted
from webhook.validation.live import eviction as live_eviction
from webhook.validation.live import override as live_override
from webhook.validation.placement import disruption_budget, envelope, eviction, override

ENTRIES: Final = (
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
        operations=ALL,
        body="data",
        most_values=MOST_VALUES_OF_MANIFESTS,
    ),
    Admitted(
        kinds.NAMESPACED_ENVELOPE,
        envelope.validate_resource_envelope,
        operations=ALL,
        body="data",
        most_values=MOST_VALUES_OF_MANIFESTS,
    ),
    Admitted(kinds.DISRUPTION_BUDGET, disruption_budget.validate, live=live_eviction.BUDGET_CHECKS),
    Admitted(kinds.EVICTION, eviction.validate, operations=CREATE, live=live_eviction.EVICTION_CHECKS),
)
