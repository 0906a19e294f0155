"""Tells of certificates of a server that are near their end, once a day.

By then they should have been renewed. All replicas tell at the same time, when a day of UTC begins, so it is one Event;
a process tells at its start as well. It is about the Secret of the authority, where that is ours. A certificate from
files has no object of its own; it is about the webhook configuration, whose hooks end with it.
"""

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Final, NamedTuple

from scorer.api.event import Event
from scorer.api.meta import JsonObject, format_time


class Validity(NamedTuple):
    """From when until when a certificate is good."""

    begin: datetime
    end: datetime


REMAINING: Final[Mapping[str, timedelta]] = {"leaf": timedelta(days=2), "ca": timedelta(days=30)}
"""What a certificate should never come down to, by its role: the bounds of the alerts."""
_WORDS: Final = {
    "leaf": "the certificate of the server ends at {}; from then on writes to harbormaster's kinds are refused",
    "ca": "the authority of the server's certificate ends at {}",
}


class CertificateExpiryMonitor:
    """Looks at the certificates of one server.

    Args:
        about: Returns what the Event is about.
        record: Takes Events.
    """

    def __init__(self, about: Callable[[], JsonObject], record: Callable[[JsonObject, Event], object]) -> None:
        self._about = about
        self._record = record
        self._told: dict[str, date] = {}

    def check(self, certificates: Mapping[str, Validity], now: datetime) -> None:
        """Tell of those that are near their end, if that was not told today.

        Args:
            certificates: By their role.
            now: The time by the hub's clock.
        """
        validities = {role: certificate for role, certificate in certificates.items() if role in REMAINING}
        near = {role: validity.end for role, validity in validities.items() if _is_near(role, validity, now)}
        told_roles = {role: self._told[role] for role in near if role in self._told}
        if any(told_roles.get(role) != now.date() for role in near):
            words = "; ".join(_WORDS[role].format(format_time(end)) for role, end in sorted(near.items(), reverse=True))
            self._record(self._about(), Event("CertificateNearEnd", words, "Warning"))
            told_roles = dict.fromkeys(near, now.date())
        self._told = told_roles


def _is_near(role: str, validity: Validity, now: datetime) -> bool:
    """Say whether little is left; of a short life a sixth, as those that renew themselves do so at two thirds."""
    return validity.end - now < min(REMAINING[role], (validity.end - validity.begin) / 6)
