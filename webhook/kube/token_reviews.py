"""Asks the API server whose a bearer token is, by TokenReviews; see `webhook.kube.reviews` for what is remembered.

A token counts only if it was issued for our audience: if one issued for the API server did, every workload that is
shown a pod's token could come here as that pod.

Source: serving.md 3.4.
"""

from dataclasses import dataclass
from typing import Final

from scorer.api.documents import status_of
from scorer.api.meta import JsonObject
from webhook.access.bearer import fingerprint
from webhook.access.user import UserInfo
from webhook.kube.client import ApiServer
from webhook.kube.paths import ApiPath
from webhook.kube.reviews import REVIEW_SECONDS, ReviewCounts, Reviews

ACCEPTED_SECONDS: Final = 60.0
REFUSED_SECONDS: Final = 10.0
_PATH: Final = ApiPath("apis", "authentication.k8s.io", "v1", "tokenreviews")


@dataclass(frozen=True, slots=True)
class _Holder:
    """The user that a token belongs to; None: it is not valid here."""

    user: UserInfo | None


class TokenReviewer:
    """Knows bearer tokens.

    Args:
        server: The API server to ask.
        audience: What a token has to be issued for.
        counts: Counts the reviews.
    """

    def __init__(self, server: ApiServer, audience: str, counts: ReviewCounts) -> None:
        self._server = server
        self._audience = audience
        self._counts = counts
        self._reviews: Reviews[_Holder] = Reviews(
            "token",
            counts,
            seconds=lambda holder: ACCEPTED_SECONDS if holder.user else REFUSED_SECONDS,
            allows=lambda holder: holder.user is not None,
        )

    @property
    def audience(self) -> str:
        """What a token has to be issued for."""
        return self._audience

    def known(self, token: str) -> UserInfo | None:
        """Return whose token it is if a review said so in the last minute."""
        holder = self._reviews.known(fingerprint(token))
        if holder is None or holder.user is None:
            return None
        self._counts.count("token", "cache")
        return holder.user

    async def authenticate(self, token: str) -> UserInfo | None:
        """Return whose token it is; None: it is invalid, or issued for another audience. Raises `NotReviewedError`."""
        return (await self._reviews.find(fingerprint(token), lambda: self._ask(token))).user

    async def _ask(self, token: str) -> _Holder:
        body: JsonObject = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [self._audience]},
        }
        answer = await self._server.request("POST", _PATH, body, seconds=REVIEW_SECONDS)
        status = status_of(answer)
        user = UserInfo.read(status.get("user"))
        accepted = status.get("authenticated") is True and self._audience in (status.get("audiences") or ())
        return _Holder(user if accepted and user.username else None)
