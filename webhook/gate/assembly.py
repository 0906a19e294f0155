"""What answers about disruption, put together: for the server of a hub and for everything in one process alike."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from webhook.admission.enforcement import Enforcement
from webhook.gate.budgets import HubBudgets
from webhook.gate.members import HubMemberGates
from webhook.gate.nodes import HubGate
from webhook.gate.pools import HubNodePools
from webhook.kube.cache import Cache
from webhook.kube.ports import Store
from webhook.settings.gate import DisruptionSettings


@dataclass(frozen=True, slots=True)
class Disruption:
    """What may be disrupted, now or later: nodes of pools, member clusters, and the budgets that decide.

    ``enforcement`` judges disruptions by hand; None: nobody does, and all are allowed.
    """

    gate: HubGate
    members: HubMemberGates
    budgets: HubBudgets
    enforcement: Enforcement | None = None


def disruption_of(cache: Cache, store: Store, settings: DisruptionSettings, now: Callable[[], datetime]) -> Disruption:
    """Make what answers about disruption.

    Args:
        cache: The hub's objects; it is made to watch what is needed.
        store: Where reservations are kept.
        settings: What the operator decided.
        now: The clock.
    """
    pools = HubNodePools(cache, template_do_not_disrupt=settings.template_do_not_disrupt)
    gate = HubGate(pools, store, settings, now)
    judged = settings.admission()
    enforcement = Enforcement(pools, gate.reservations, store, judged, now) if judged.enforce_budgets else None
    return Disruption(gate, HubMemberGates(cache, gate, settings, now), HubBudgets(gate, now), enforcement)
