"""Authentication by the hub: TokenReviews of bearer tokens, and the CA of client certificates.

A token counts only if it was issued for our audience. Otherwise, any workload that sees a Pod's token could use it
here. kube-apiserver publishes its ``--client-ca-file`` in a ConfigMap, readable by every account that is bound to the
Role ``extension-apiserver-authentication-reader``.

Source: docs/specifications/serving.md 3.4.
"""

from dataclasses import dataclass
from typing import Final

from certs.context import CertificateError
from scorer.api.kinds import KINDS
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import status_of, text_at
from webhook.access.bearer import fingerprint
from webhook.access.user import UserInfo
from webhook.kube.access.reviews import REVIEW_SECONDS, ReviewCounts, Reviews
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.paths import ApiPath, path_of
from webhook.kube.ports import StoreError

ACCEPTED_SECONDS: Final = 60.0
REFUSED_SECONDS: Final = 10.0
_PATH: Final = ApiPath("apis", "authentication.k8s.io", "v1", "tokenreviews")


@dataclass(frozen=True, slots=True)
class _Holder:
    """The user of a reviewed token. None: unknown, the hub does not accept the token for the audience."""

    user: UserInfo | None


class TokenReviewer:
    """Authenticates bearer tokens by TokenReview.

    Args:
        server: API server that reviews.
        audience: Audience that a token must be issued for.
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
        """Audience that a token must be issued for."""
        return self._audience

    def cached(self, token: str) -> UserInfo | None:
        """Return the user of a token whose acceptance is cached, else None."""
        holder = self._reviews.cached(fingerprint(token))
        if holder is None or holder.user is None:
            return None
        self._counts.count("token", "cache")
        return holder.user

    async def authenticate(self, token: str) -> UserInfo | None:
        """Return the user of a token, or None if the hub does not accept it for the audience.

        Raises:
            NotReviewedError: The hub refused the review, or did not respond in time.
        """
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
        is_accepted = status.get("authenticated") is True and self._audience in (status.get("audiences") or ())
        return _Holder(user if is_accepted and user.username else None)


CONFIG_MAP: Final = "extension-apiserver-authentication"
KEY: Final = "client-ca-file"
CHECK_SECONDS: Final = 60.0
READ_SECONDS: Final = 5.0

PUBLISHED: Final = path_of(KINDS["", "ConfigMap"], "kube-system", CONFIG_MAP)
LOCATION: Final = f"ConfigMap kube-system/{CONFIG_MAP}"


class HubAuthorities:
    """Reads the client CA that the hub publishes.

    Args:
        server: The hub.
    """

    check_seconds = CHECK_SECONDS

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def read(self) -> bytes:
        """Return the authorities in PEM.

        Raises:
            CertificateError: The ConfigMap cannot be read, or has no client CA.
        """
        fix = "Start kube-apiserver with --client-ca-file, or disable client certificates"
        return (await read_authorities(self._server, KEY, fix))[0]


async def read_authorities(server: ApiServer, key: str, fix: str) -> tuple[bytes, JsonObject]:
    """Return authorities that kube-apiserver publishes, in PEM, and the whole ConfigMap.

    Args:
        server: The hub.
        key: Key of the authorities in the ConfigMap.
        fix: Advice for a hub without this key.

    Raises:
        CertificateError: The ConfigMap cannot be read, or lacks the key.
    """
    try:
        document = await server.request("GET", PUBLISHED, seconds=READ_SECONDS)
    except StoreError as error:
        raise CertificateError(f"{LOCATION}: {error}") from error
    pem = text_at(document, "data", key)
    if not pem.strip():
        raise CertificateError(f"{LOCATION}: has no {key}. {fix}")
    return pem.encode(), document
