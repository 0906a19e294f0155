"""Records an Event once a day for server certificates that expire soon.

Such a certificate should have been renewed earlier. All replicas record the Event concurrently, at the start of a UTC
day, so that the API server stores only one. A process also records it at its start. The Event is on the Secret of the
authority, if harbormaster owns it. A certificate from files has no object, so the Event is on the webhook
configuration, whose hooks fail when the certificate expires.
"""

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Final, NamedTuple

from scorer.api.event import Event
from scorer.api.meta import JsonObject, format_time


class Validity(NamedTuple):
    """Validity period of a certificate."""

    begin: datetime
    end: datetime


REMAINING: Final[Mapping[str, timedelta]] = {"leaf": timedelta(days=2), "ca": timedelta(days=30)}
"""Minimum remaining validity of a certificate that is renewed in time, by role. The alerts have equal limits."""
_WORDS: Final = {
    "leaf": "the certificate of the server expires at {}, and writes to harbormaster's kinds are then refused",
    "ca": "the CA that signed the server certificate expires at {}",
}


class CertificateExpiryMonitor:
    """Checks the certificates of one server.

    Args:
        about: Returns the object of the Event.
        record: Records Events.
    """

    def __init__(self, about: Callable[[], JsonObject], record: Callable[[JsonObject, Event], object]) -> None:
        self._about = about
        self._record = record
        self._reported: dict[str, date] = {}

    def check(self, certificates: Mapping[str, Validity], now: datetime) -> None:
        """Record one Event for all certificates that expire soon, unless each has been reported today.

        Args:
            certificates: Validity by role.
            now: Time of the hub's clock.
        """
        validities = {role: certificate for role, certificate in certificates.items() if role in REMAINING}
        near = {role: validity.end for role, validity in validities.items() if _is_near(role, validity, now)}
        reported_roles = {role: self._reported[role] for role in near if role in self._reported}
        if any(reported_roles.get(role) != now.date() for role in near):
            words = "; ".join(_WORDS[role].format(format_time(end)) for role, end in sorted(near.items(), reverse=True))
            self._record(self._about(), Event("CertificateNearEnd", words, "Warning"))
            reported_roles = dict.fromkeys(near, now.date())
        self._reported = reported_roles


def _is_near(role: str, validity: Validity, now: datetime) -> bool:
    """Return whether a certificate expires soon. For a short-lived certificate: in the last sixth of its lifetime."""
    return validity.end - now < min(REMAINING[role], (validity.end - validity.begin) / 6)
