"""Builds the disruption gate, for the server of a hub and for the all-in-one process."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from webhook.admission.enforcement import DisruptionEnforcement
from webhook.gate.budgets import HubBudgets
from webhook.gate.keeper import ReservationKeeper
from webhook.gate.members import HubMemberGate
from webhook.gate.nodes import HubNodeGate
from webhook.gate.pools import HubNodePools
from webhook.gate.reservations import LeaseReservations
from webhook.gate.service import GateService, MemberGateService, NodeGateService, ReservationService
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import Store
from webhook.settings.answers import DisruptionSettings


@dataclass(frozen=True, slots=True)
class DisruptionGate:
    """The gates for nodes and member clusters, and their budgets.

    Args:
        service: Answers the questions of callers.
        budgets: Reads the budgets, now and on the calendar.
        nodes: The pools with their reservations.
        members: Active disruptions of the member clusters.
        keeper: Keeps reservations.
        enforcement: Admits or denies manual disruptions. Without ``enforce_budgets`` it admits all.
    """

    service: GateService
    budgets: HubBudgets
    nodes: HubNodeGate
    members: HubMemberGate
    keeper: ReservationKeeper
    enforcement: DisruptionEnforcement

    async def run(self) -> None:
        """Watch the reservations until cancelled."""
        await self.keeper.reservations.run()


def disruption_of(
    cache: Cache, store: Store, settings: DisruptionSettings, now: Callable[[], datetime]
) -> DisruptionGate:
    """Create the disruption gate.

    Args:
        cache: Cache of the hub. The gate adds the watches that it needs.
        store: Store of the reservations.
        settings: Settings of the operator.
        now: The clock.
    """
    pools = HubNodePools(cache, template_do_not_disrupt=settings.template_do_not_disrupt)
    reservations = LeaseReservations(store, settings.namespace, now)
    keeper = ReservationKeeper(reservations, now)
    nodes = HubNodeGate(pools, keeper, store, settings, now)
    members = HubMemberGate(cache, keeper, store, settings, now)
    enforcement = DisruptionEnforcement(pools, reservations, store, settings.admission(), now)
    service = GateService(NodeGateService(nodes), MemberGateService(members), ReservationService(keeper))
    return DisruptionGate(service, HubBudgets(nodes, now), nodes, members, keeper, enforcement)
