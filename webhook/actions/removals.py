"""Confirmation of the removal of content.

Source: removal.md 4.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from scorer.api.names import CONFIRM_REMOVAL
from scorer.api.unstructured.json_object import JsonObject
from scorer.rollout.confirmation.digests import DEFAULT_VALIDITY, CarriedOut, Confirmation
from webhook.actions.patches import versioned


@dataclass(frozen=True, slots=True)
class ConfirmationPatch:
    """A confirmation of removals.

    Args:
        patch: Adds it to a placement, or to a NodePool.
        expiry: Its expiry.
    """

    patch: JsonObject
    expiry: datetime


def confirmation_patch(document: JsonObject, digests: Collection[str], now: datetime) -> ConfirmationPatch:
    """Return the patch that adds *digests* to the confirmation on an object."""
    earlier = Confirmation.of(document, now)
    record = CarriedOut.of(document).without_expired(now)
    # A digest on record counts again only in a confirmation that expires later.
    renewed = [record.until[digest] + timedelta(seconds=1) for digest in digests if digest in record.until]
    expiry = max(filter(None, (earlier.expiry, now + DEFAULT_VALIDITY, *renewed)))
    text = Confirmation(frozenset(digests) | (earlier.digests - record.until.keys()), expiry).format()
    return ConfirmationPatch(versioned(document, {"metadata": {"annotations": {CONFIRM_REMOVAL: text}}}), expiry)
