"""Tells an upgrader outside of operations, by HTTP.

It is told again until it says that it has understood; it knows a repeated operation by its id.

Source: upgrade-runs.md 13.4.
"""

from typing import Final

import orjson

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import metadata_of, text_at
from scorer.upgrade.back_ends.interface import Rejected, Started, StartResult
from webhook.access.signature import OPERATION
from webhook.kube.transport.signed_post import LATER, NotPostedError, PostResponse, Receiver, post_signed
from webhook.settings.upgraders import HandOffOptions

_ALREADY: Final = 409


class NotDeliveredError(Exception):
    """The upgrader has not understood, or nobody knows whether it has; it is told again."""


class Delivery:
    """Posts requests.

    Args:
        options: Where to, and with which secret.
    """

    def __init__(self, options: HandOffOptions) -> None:
        self._receiver = Receiver(options.url, options.secret_file, options.ca, "HANDOFF")

    async def post(self, request: JsonObject) -> StartResult:
        """Tell the upgrader of an operation.

        Args:
            request: The ClusterUpgradeRequest.

        Raises:
            NotDeliveredError: It cannot be reached, answers that it cannot take it now or no HTTP at all, or there is
                nothing to sign with.
        """
        metadata = {key: metadata_of(request)[key] for key in ("name", "labels", "uid") if key in metadata_of(request)}
        body = {
            "apiVersion": request["apiVersion"],
            "kind": request["kind"],
            "metadata": metadata,
            "spec": request["spec"],
        }
        headers = {OPERATION: text_at(request, "spec", "operationID")}
        try:
            return _understood(await post_signed(self._receiver, orjson.dumps(body), headers))
        except NotPostedError as error:
            raise NotDeliveredError(str(error)) from error


def _understood(answer: PostResponse) -> StartResult:
    status, message = answer
    if 200 <= status < 300:
        return Started.ACCEPTED
    if status == _ALREADY:
        return Started.ALREADY_RUNNING
    if 400 <= status < 500 and status not in LATER:
        return Rejected(f"Http{status}", message or f"the upgrader answers with HTTP status {status}")
    raise NotDeliveredError(f"the upgrader answers with HTTP status {status}: {message}")
