"""What answers about disruption, put together: for the server of a hub and for everything in one process alike."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from webhook.admission.enforcement import DisruptionEnforcement
from webhook.gate.budgets import HubBudgets
from webhook.gate.desk import GateService, MemberGateService, NodeGateService, ReservationService
from webhook.gate.keeper import ReservationKeeper
from webhook.gate.members import HubMemberGate
from webhook.gate.nodes import HubNodeGate
from webhook.gate.pools import HubNodePools
from webhook.gate.reservations import LeaseReservations
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import Store
from webhook.settings.answers import DisruptionSettings


@dataclass(frozen=True, slots=True)
class DisruptionGate:
    """What may be disrupted, now or later: nodes of pools, member clusters, and the budgets that decide.

    Args:
        desk: Where questions are asked.
        budgets: What the budgets allow, now and on the calendar.
        nodes: The pools with what is reserved of them.
        members: What goes on at the member clusters.
        keeper: Keeps what is reserved.
        enforcement: Judges disruptions by hand; without ``enforce_budgets`` it allows them all.
    """

    desk: GateService
    budgets: HubBudgets
    nodes: HubNodeGate
    members: HubMemberGate
    keeper: ReservationKeeper
    enforcement: DisruptionEnforcement

    async def run(self) -> None:
        """Follow the reservations until cancelled."""
        await self.keeper.reservations.run()


def disruption_of(
    cache: Cache, store: Store, settings: DisruptionSettings, now: Callable[[], datetime]
) -> DisruptionGate:
    """Make what answers about disruption.

    Args:
        cache: The hub's objects; it is made to watch what is needed.
        store: Where reservations are kept.
        settings: What the operator decided.
        now: The clock.
    """
    pools = HubNodePools(cache, template_do_not_disrupt=settings.template_do_not_disrupt)
    reservations = LeaseReservations(store, settings.namespace, now)
    keeper = ReservationKeeper(reservations, now)
    nodes = HubNodeGate(pools, keeper, store, settings, now)
    members = HubMemberGate(cache, keeper, store, settings, now)
    enforcement = DisruptionEnforcement(pools, reservations, store, settings.admission(), now)
    desk = GateService(NodeGateService(nodes), MemberGateService(members), ReservationService(keeper))
    return DisruptionGate(desk, HubBudgets(nodes, now), nodes, members, keeper, enforcement)
