"""Posts requests to an external upgrader over HTTP.

A request is posted again until the upgrader acknowledges it. The upgrader recognizes a repeated operation by its id.

Source: docs/specifications/upgrade-runs.md 13.4.
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
    """The upgrader did not acknowledge the request, or its acknowledgment was lost. The request is posted again."""


class Delivery:
    """Posts requests.

    Args:
        options: URL and secret of the receiver.
    """

    def __init__(self, options: HandOffOptions) -> None:
        self._receiver = Receiver(options.url, options.secret_file, options.ca, "HANDOFF")

    async def post(self, request: JsonObject) -> StartResult:
        """Post an operation to the upgrader. Return its answer.

        Args:
            request: The ClusterUpgradeRequest.

        Raises:
            NotDeliveredError: The upgrader is unreachable, its answer is a temporary error or not HTTP, or the secret
                is unreadable.
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
        return Rejected(f"Http{status}", message or f"the upgrader returned HTTP status {status}")
    raise NotDeliveredError(f"the upgrader returned HTTP status {status}: {message}")
