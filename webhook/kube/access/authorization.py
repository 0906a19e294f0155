"""Authorization by the hub: SubjectAccessReviews. See `webhook.kube.access.reviews` for the cache of answers.

Source: docs/specifications/serving.md 3.4 and 8.
"""

import asyncio
import logging
from collections.abc import Hashable, Sequence
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import status_of
from webhook.access.ports import NotReviewedError, PathAccess
from webhook.access.rights import MOST_REVIEWED, Access, Reviewed, resource_attributes
from webhook.access.user import UserInfo
from webhook.kube.access.reviews import REVIEW_SECONDS, ReviewCounts, Reviews
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.paths import ApiPath

ALLOWED_SECONDS: Final = 300.0
DENIED_SECONDS: Final = 30.0
_PATH: Final = ApiPath("apis", "authorization.k8s.io", "v1", "subjectaccessreviews")

_log = logging.getLogger(__name__)


class HubAccessReviewer:
    """Authorizes users by SubjectAccessReview.

    Args:
        server: API server that reviews.
        counts: Counts the reviews.
    """

    def __init__(self, server: ApiServer, counts: ReviewCounts) -> None:
        self._server = server
        self._counts = counts
        self._reviews: Reviews[bool] = Reviews(
            "access",
            counts,
            seconds=lambda allowed: ALLOWED_SECONDS if allowed else DENIED_SECONDS,
            allows=bool,
        )

    def cached(self, user: UserInfo, accesses: Sequence[Access]) -> Reviewed | None:
        """Return the result of `review` from cached answers.

        None: unknown, an answer is not cached, or there are more than `MOST_REVIEWED` accesses.
        """
        if len(accesses) > MOST_REVIEWED:
            return None
        answers = [self._cached_answer(user, access) for access in accesses]
        if None in answers:
            return None
        for _ in answers:
            self._counts.count("access", "cache")
        return Reviewed(tuple(access for access, answer in zip(accesses, answers, strict=True) if answer is False))

    async def review(self, user: UserInfo, accesses: Sequence[Access]) -> Reviewed:
        """Return which of *accesses* are denied to the user, and why others could not be determined.

        More than `MOST_REVIEWED` accesses are not reviewed at all.
        """
        if len(accesses) > MOST_REVIEWED:
            return Reviewed(
                unanswered=f"{len(accesses)} rights or more are needed, but at most {MOST_REVIEWED} can be reviewed"
            )
        answers = await asyncio.gather(*(self._may_one_of(user, access) for access in accesses), return_exceptions=True)
        denied = tuple(access for access, answer in zip(accesses, answers, strict=True) if answer is False)
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        for failure in failures:
            if not isinstance(failure, NotReviewedError):
                raise failure
        if failures:
            _log.warning("access not reviewed", extra={"user": user.username, "reason": str(failures[0])})
        return Reviewed(denied, "the API server refused the review or did not answer" if failures else "")

    def _cached_answer(self, user: UserInfo, requirement: Access) -> bool | None:
        answers = [self._reviews.cached(_key(user, access)) for access in requirement.alternatives]
        return True if True in answers else None if None in answers else False

    async def _may_one_of(self, user: UserInfo, requirement: Access) -> bool:
        for access in requirement.alternatives:
            if await self.may(user, access):
                return True
        return False

    async def may(self, user: UserInfo, access: Access | PathAccess) -> bool:
        """Return whether *user* is allowed the access.

        Raises:
            NotReviewedError: The API server refused the review, or did not respond in time.
        """
        return await self._reviews.find(_key(user, access), lambda: self._ask(user, access))

    async def _ask(self, user: UserInfo, access: Access | PathAccess) -> bool:
        spec: JsonObject = {"user": user.username, "groups": sorted(user.groups)}
        if isinstance(access, PathAccess):
            spec["nonResourceAttributes"] = {"path": access.path, "verb": access.verb}
        else:
            spec["resourceAttributes"] = resource_attributes(access)
        if user.uid:
            spec["uid"] = user.uid
        if user.extra:
            spec["extra"] = {key: list(values) for key, values in user.extra.items()}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = await self._server.request("POST", _PATH, body, seconds=REVIEW_SECONDS)
        status = status_of(answer)
        return status.get("allowed") is True and not status.get("denied")


def _key(user: UserInfo, access: Access | PathAccess) -> Hashable:
    return user.username, user.uid, user.groups, tuple(sorted(user.extra.items())), access
