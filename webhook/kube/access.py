"""Asks the API server what a user may do: SubjectAccessReviews, remembered for a while, never the same twice at once.

Source: serving.md 3.4 and 8.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, TypeAlias

from scorer.api.meta import JsonObject
from webhook.admission.authorization import Access, Reviewed, resource_attributes
from webhook.admission.context import UserInfo
from webhook.kube.client import ApiServer
from webhook.kube.ports import StoreError

ALLOWED_SECONDS: Final = 300.0
DENIED_SECONDS: Final = 30.0
REVIEW_SECONDS: Final = 5.0
MOST_REMEMBERED: Final = 4096
AT_ONCE: Final = 16
REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

_Key: TypeAlias = tuple[object, ...]

_log = logging.getLogger(__name__)


class AccessReviewer:
    """Knows what users may do.

    Args:
        server: Who is asked.
    """

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._known: OrderedDict[_Key, tuple[float, bool]] = OrderedDict()
        self._asking: dict[_Key, asyncio.Task[bool]] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def review(self, user: UserInfo, wanted: Sequence[Access]) -> Reviewed:
        """Return which of *wanted* the user may not do.

        What cannot be found out is never taken for allowed: the result says so.
        """
        answers = await asyncio.gather(*(self._may(user, access) for access in wanted), return_exceptions=True)
        denied = tuple(access for access, answer in zip(wanted, answers, strict=True) if answer is False)
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        for failure in failures:
            if not isinstance(failure, StoreError | TimeoutError):
                raise failure
        if failures:
            _log.warning("access not reviewed", extra={"user": user.username, "reason": str(failures[0])})
        return Reviewed(denied, "the API server did not answer" if failures else "")

    async def _may(self, user: UserInfo, access: Access) -> bool:
        key = (user.username, user.uid, user.groups, tuple(sorted(user.extra.items())), access)
        now = asyncio.get_running_loop().time()
        known = self._known.get(key)
        if known is not None and now < known[0]:
            self._known.move_to_end(key)
            return known[1]
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._ask(user, access))
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        allowed = await asyncio.shield(task)
        self._known[key] = (now + (ALLOWED_SECONDS if allowed else DENIED_SECONDS), allowed)
        if len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return allowed

    async def _ask(self, user: UserInfo, access: Access) -> bool:
        spec: JsonObject = {
            "user": user.username,
            "groups": sorted(user.groups),
            "resourceAttributes": resource_attributes(access),
        }
        if user.uid:
            spec["uid"] = user.uid
        if user.extra:
            spec["extra"] = {key: list(values) for key, values in user.extra.items()}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        async with self._slots, asyncio.timeout(REVIEW_SECONDS):
            status = (await self._server.request("POST", REVIEWS, body, seconds=REVIEW_SECONDS)).get("status") or {}
        return bool(status.get("allowed")) and not status.get("denied")
