"""What handlers are handed: the composition of the programs, over a hub that holds nothing unless one is given."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from webhook.access.ports import AccessReviewer, Authenticator, Authorizer
from webhook.admission.rights import AuthorRights, UndisputedRights
from webhook.embedded.owner import OwnerToken
from webhook.endpoints.services import Admittance, Services
from webhook.kube.cache import Cache
from webhook.kube.ports import Store
from webhook.processes.services import answers_of, services_of
from webhook.settings.clock import utc_now
from webhook.settings.programs import ServerSettings
from webhook.telemetry.metrics import Metrics
from webhook.validation.context import Context

TOKEN = "the-token-of-the-owner"
"""Lets its holder do everything, as that of a data folder does."""
OWNER = OwnerToken(TOKEN)


class Unread(Store):
    """A hub that nobody reads: the cache over it stays as it was made."""


def admit(
    authenticator: Authenticator = OWNER, authorizer: Authorizer = OWNER, access: AccessReviewer | None = None
) -> Admittance:
    """Let in whom these know; without *access* nobody's rights are disputed."""
    return Admittance(authenticator, authorizer, UndisputedRights() if access is None else AuthorRights(access))


def make_services(
    *,
    admittance: Admittance | None = None,
    cache: Cache | None = None,
    store: Store | None = None,
    settings: ServerSettings | None = None,
    admission: Callable[[], Context] = Context,
    now: Callable[[], datetime] = utc_now,
    **answers: Any,
) -> Services:
    """Make what the handlers of a server need; *answers* take the place of what would answer below ``/v1``."""
    store = store or Unread()
    cache = cache or Cache(store)
    made = replace(answers_of(cache, admission, admittance or admit(), now), **answers)
    return services_of(made, cache, store, settings or ServerSettings(), Metrics())
