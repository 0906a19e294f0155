"""The objects that handlers call.

Source: serving.md 3.1 and 3.2.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from webhook.access.ports import Authenticator, Authorizer
from webhook.admission.removals import RemovalReviews
from webhook.admission.rights import Rights
from webhook.answers.extender import HubExtender
from webhook.answers.history import RunHistory
from webhook.answers.plans import HubPlanner
from webhook.answers.property_history import PropertyHistory
from webhook.answers.questions import Advisor, ChangeFeed
from webhook.answers.trees import Trees
from webhook.answers.update_runs import HubRuns
from webhook.answers.upgrade_orders import UpgradeOrders
from webhook.answers.upgrade_plans import HubUpgradePlanner
from webhook.answers.upgrade_reports import UpgradeReports
from webhook.gate.assembly import DisruptionGate
from webhook.history.desk import HistoryService
from webhook.sign_in.people import SignIn
from webhook.validation.framework.context import Context


@dataclass(frozen=True, slots=True)
class Admittance:
    """Authentication and authorization of callers.

    Args:
        authenticator: Reviews bearer tokens.
        authorizer: Reviews what a caller may ask.
        sign_in: Signs people in to the page; None: disabled, callers need a token.
    """

    authenticator: Authenticator
    authorizer: Authorizer
    sign_in: SignIn | None = None


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers to questions about the hub, which every set of handlers needs.

    Args:
        advisor: Answers ``/v1``.
        changes: Feeds ``/v1/events``.
        history: Keeps the last decisions on every placement.
        runs: Answers ``/v1/runs``.
        planner: Answers ``/v1/plan``.
        admission: Returns what admission rules may look at besides the object; called once per request.
        rights: Reviews what the authors of placements may place.
        properties: Remembers what members reported.
        trees: Looks below placements.
        synced: Says whether all caches have been filled once.
        now: Wall clock.
    """

    advisor: Advisor
    changes: ChangeFeed
    history: RunHistory
    runs: HubRuns
    planner: HubPlanner
    admission: Callable[[], Context]
    rights: Rights
    properties: PropertyHistory
    trees: Trees
    synced: Callable[[], bool]
    now: Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Upgrades:
    """What is asked and ordered of upgrade runs.

    Args:
        planner: Answers ``/v1/upgrade/plan`` and ``/v1/upgrade/whatif``.
        orders: Carries out what callers order.
        reports: Takes what upgraders outside report.
    """

    planner: HubUpgradePlanner
    orders: UpgradeOrders
    reports: UpgradeReports


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that the handlers of a server need.

    Args:
        answers: Answers ``/v1``.
        admittance: Authenticates and authorizes callers.
        extender: Answers kube-schedulers.
        disruption: Says what may be disrupted.
        upgrades: Plans and orders upgrade runs.
        history: Notes what happens, and knows what has happened.
        removals: Judges writes by the content that they remove.
    """

    answers: Answers
    admittance: Admittance
    extender: HubExtender
    disruption: DisruptionGate
    upgrades: Upgrades
    history: HistoryService
    removals: RemovalReviews
