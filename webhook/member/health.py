"""Whether the member's API server is ready, for the heartbeat.

Source: rollout.md 21.1; scheduling.md 19.
"""

from typing import Final

from webhook.kube.client import ApiServer
from webhook.kube.paths import ApiPath
from webhook.kube.ports import StoreError

PROBE_SECONDS: Final = 5.0


async def ailment(server: ApiServer, seconds: float = PROBE_SECONDS) -> str:
    """Ask ``/readyz``; return an empty text when it answers 200, else the error."""
    try:
        await server.request("GET", ApiPath("readyz"), seconds=seconds)
    except StoreError as error:
        return " ".join(str(error).split())
    return ""
