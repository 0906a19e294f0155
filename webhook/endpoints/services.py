"""What the HTTP handlers are handed: a few questions they may ask, and nothing of how they are answered.

Source: serving.md 3.1 and 3.2.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from webhook.access.ports import AccessReviewer, Authenticator, Authorizer
from webhook.answers.extender import HubExtender
from webhook.answers.history import RunHistory
from webhook.answers.plans import HubPlanner
from webhook.answers.questions import Advisor, Changes
from webhook.gate.assembly import Disruption
from webhook.settings.clock import utc_now
from webhook.validation.context import Context


@dataclass(frozen=True, slots=True)
class Services:
    """Everything the handlers need.

    Args:
        advisor: Answers ``/v1``.
        changes: Feeds ``/v1/events``.
        admission: Returns what admission rules may look at besides the object; asked once per request.
        synced: Says whether all caches have been filled once.
        now: Wall clock.
        access: Knows the rights of users; None: nobody does, and placements are not reviewed for them.
        authenticator: Knows bearer tokens; None: no token lets anybody in.
        authorizer: Knows who may ask what; None: whoever is let in may ask everything.
        planner: Answers ``/v1/plan``; None: nobody does.
        extender: Answers kube-schedulers; None: nobody does.
        history: Keeps the last decisions on every placement; None: nobody does.
        disruption: What may be disrupted; None: nobody knows.
    """

    advisor: Advisor
    changes: Changes
    admission: Callable[[], Context]
    synced: Callable[[], bool]
    now: Callable[[], datetime] = utc_now
    access: AccessReviewer | None = None
    authenticator: Authenticator | None = None
    authorizer: Authorizer | None = None
    planner: HubPlanner | None = None
    extender: HubExtender | None = None
    history: RunHistory | None = None
    disruption: Disruption | None = None
