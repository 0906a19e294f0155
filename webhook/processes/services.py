"""Builds the services over a hub: the same for `up`, for `serve` and for single commands.

The services determine the kinds that the cache watches.
"""

from collections.abc import Callable
from datetime import datetime

from webhook.access.ports import Authorizer
from webhook.admission.removals import RemovalReviews
from webhook.admission.rights import Rights
from webhook.answers.advisor import HubAdvisor
from webhook.answers.changes import HubChanges
from webhook.answers.extender import HubExtender
from webhook.answers.history import RunHistory
from webhook.answers.plans import HubPlanner
from webhook.answers.property_history import PropertyHistory
from webhook.answers.trees import Trees
from webhook.answers.update_runs import HubRuns
from webhook.answers.upgrade_orders import UpgradeOrders
from webhook.answers.upgrade_plans import HubUpgradePlanner
from webhook.answers.upgrade_reports import UpgradeReports
from webhook.endpoints.http.services import Admittance, Answers, Services, Upgrades
from webhook.gate.assembly import disruption_of
from webhook.gate.metrics import PoolMetrics
from webhook.history.service import EventSinks
from webhook.kube.cache.informer import Cache
from webhook.kube.listers.maintenance_windows import MaintenanceWindows
from webhook.kube.listers.upgrades import HubUpgrades
from webhook.kube.ports import Store
from webhook.settings.programs import ServerSettings
from webhook.telemetry.metrics import Metrics
from webhook.validation.framework.context import Context


def answers_of(
    cache: Cache, store: Store, admission: Callable[[], Context], rights: Rights, now: Callable[[], datetime]
) -> Answers:
    """Create the services of ``/v1``, except node pools and gates.

    Args:
        cache: Cache of the hub. The services add the watches that they need.
        store: The hub itself.
        admission: Returns the inputs of admission rules.
        rights: Reviews the rights of placement authors.
        now: The clock.
    """
    history = RunHistory(cache, now)
    return Answers(
        advisor=HubAdvisor(cache, now, history),
        changes=HubChanges(cache),
        history=history,
        runs=HubRuns(cache, now),
        planner=HubPlanner(cache, admission, rights, now),
        admission=admission,
        rights=rights,
        properties=PropertyHistory(cache, now),
        trees=Trees(cache, store),
        synced=lambda: cache.synced,
        now=now,
    )


def services_of(
    answers: Answers,
    admittance: Admittance,
    cache: Cache,
    store: Store,
    settings: ServerSettings,
    metrics: Metrics,
    sinks: EventSinks,
) -> Services:
    """Create all services of a server, and register their metrics.

    Args:
        answers: Services of ``/v1``.
        admittance: Authenticates and authorizes callers.
        cache: Cache of the hub. The services add the watches that they need.
        store: The hub itself.
        settings: Settings of the operator.
        metrics: Metrics of the process.
        sinks: Receivers of Events and history entries.
    """
    disruption = disruption_of(cache, store, settings, answers.now)
    pools = PoolMetrics(metrics.registry, disruption.nodes.views, answers.now)
    metrics.prepare_with(pools.prepare)
    metrics.watch_cache(cache.freshness, cache.shared_bytes)
    upgrades = upgrades_of(answers, admittance.authorizer, cache, store, settings.default_upgrader, sinks)
    extender, removals = HubExtender(cache, settings, answers.now), RemovalReviews(answers.rights, store)
    return Services(answers, admittance, extender, disruption, upgrades, sinks.history, removals)


def upgrades_of(
    answers: Answers, authorizer: Authorizer, cache: Cache, store: Store, default_upgrader: str, sinks: EventSinks
) -> Upgrades:
    """Create the services that plan and order upgrade runs.

    Args:
        answers: Services of admission and of author rights.
        authorizer: Reviews the rights of callers.
        cache: Cache of the hub. The services add watches that they need, if the account may have them.
        store: The hub itself.
        default_upgrader: Back end of members that name none, as in the loop.
        sinks: Receivers of Events and history entries.
    """
    windows = MaintenanceWindows(cache)
    upgrades = HubUpgrades.watching(cache, store, windows, default_upgrader)
    return Upgrades(
        planner=HubUpgradePlanner(cache, upgrades, windows, answers.now),
        orders=UpgradeOrders(store, upgrades, authorizer, answers.rights, answers.admission, answers.now, sinks),
        reports=UpgradeReports(cache, store, answers.now),
    )
