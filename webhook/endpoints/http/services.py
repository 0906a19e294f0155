"""The objects that handlers call.

Source: docs/specifications/serving.md 3.1 and 3.2.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from webhook.access.front_proxy import FrontProxy
from webhook.access.ports import Authenticator, Authorizer
from webhook.actions.page_actions import PageActions
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
from webhook.history.service import HistoryService
from webhook.sign_in.people import SignIn
from webhook.validation.framework.context import Context


@dataclass(frozen=True, slots=True)
class Admittance:
    """Authentication and authorization of callers.

    Args:
        authenticator: Reviews bearer tokens.
        authorizer: Reviews the rights of callers.
        sign_in: Signs users in to the page. None: disabled, callers need a token.
        front_proxy: Returns the names of the hub's front proxy, None while they are unknown. None: disabled, the server
            has no aggregated API.
    """

    authenticator: Authenticator
    authorizer: Authorizer
    sign_in: SignIn | None = None
    front_proxy: Callable[[], FrontProxy | None] | None = None


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers to questions about the hub, for all handlers.

    Args:
        advisor: Answers ``/v1``.
        changes: Feeds ``/v1/events``.
        history: Keeps the last decisions on every placement.
        runs: Answers ``/v1/runs``.
        planner: Answers ``/v1/plan``.
        admission: Returns the inputs of admission rules other than the object. Called once per request.
        rights: Reviews the objects that the authors of placements may place.
        properties: Keeps reports of members.
        trees: Builds the trees of placements.
        synced: Returns whether all caches have been filled once.
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
    """Questions about upgrade runs, and orders on them.

    Args:
        planner: Answers ``/v1/upgrade/plan`` and ``/v1/upgrade/whatif``.
        orders: Executes the orders of callers.
        reports: Accepts the reports of external upgraders.
    """

    planner: HubUpgradePlanner
    orders: UpgradeOrders
    reports: UpgradeReports


@dataclass(frozen=True, slots=True)
class PageFacts:
    """Facts about a server that its page shows.

    Args:
        program: Command line of harbormaster for a user of the page.
        hub_options: Options that select this hub, such as `` --context hub``. Empty: the program needs none.
        simulated: Whether the hub simulates its members, as ``harbormaster up`` does.
    """

    program: str = "kubectl harbormaster"
    hub_options: str = ""
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that the handlers of a server need.

    Args:
        answers: Answers ``/v1``.
        admittance: Authenticates and authorizes callers.
        extender: Answers kube-schedulers.
        disruption: Decides which disruptions are allowed.
        upgrades: Plans and orders upgrade runs.
        history: Records and queries events.
        removals: Judges writes by the content that they remove.
        page: Facts about the server for its page.
        actions: The actions of the page. None: disabled, the page is read-only.
    """

    answers: Answers
    admittance: Admittance
    extender: HubExtender
    disruption: DisruptionGate
    upgrades: Upgrades
    history: HistoryService
    removals: RemovalReviews
    page: PageFacts = field(default_factory=PageFacts)
    actions: PageActions | None = None
