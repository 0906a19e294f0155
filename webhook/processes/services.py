"""What answers over a hub, put together: the same for `up`, for `serve` and for the questions of one command.

Which kinds the cache watches follows from what is made here.
"""

from collections.abc import Callable
from datetime import datetime

from webhook.answers.advisor import HubAdvisor
from webhook.answers.changes import HubChanges
from webhook.answers.extender import HubExtender
from webhook.answers.history import RunHistory
from webhook.answers.plans import HubPlanner
from webhook.answers.update_runs import HubRuns
from webhook.endpoints.services import Admittance, Answers, Services
from webhook.gate.assembly import disruption_of
from webhook.gate.metrics import PoolMetrics
from webhook.kube.cache import Cache
from webhook.kube.ports import Store
from webhook.settings.programs import ServerSettings
from webhook.telemetry.metrics import Metrics
from webhook.validation.context import Context


def answers_of(
    cache: Cache, admission: Callable[[], Context], admittance: Admittance, now: Callable[[], datetime]
) -> Answers:
    """Make what answers below ``/v1``, node pools and gates apart.

    Args:
        cache: The hub's objects; it is made to watch what is needed.
        admission: Returns what admission rules may look at.
        admittance: Who may ask.
        now: The clock.
    """
    history = RunHistory(cache, now)
    return Answers(
        advisor=HubAdvisor(cache, now, history),
        changes=HubChanges(cache),
        history=history,
        runs=HubRuns(cache, now),
        planner=HubPlanner(cache, admission, admittance.rights, now),
        admission=admission,
        admittance=admittance,
        synced=lambda: cache.synced,
        now=now,
    )


def services_of(answers: Answers, cache: Cache, store: Store, settings: ServerSettings, metrics: Metrics) -> Services:
    """Make all that a server answers with, and register its metrics.

    Args:
        answers: What it answers below ``/v1``.
        cache: The hub's objects; it is made to watch what is needed.
        store: The hub itself.
        settings: What the operator decided.
        metrics: Where to count.
    """
    disruption = disruption_of(cache, store, settings, answers.now)
    pools = PoolMetrics(metrics.registry, disruption.nodes.views, answers.now)
    metrics.prepare_with(pools.prepare)
    metrics.watch_cache(cache.freshness)
    return Services(answers, HubExtender(cache, settings, answers.now), disruption)
