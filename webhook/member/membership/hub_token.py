"""The agent's ServiceAccount token for the hub, and its renewal by TokenRequest.

It is a token of a ServiceAccount on the hub, by the TokenRequest API: it ends by itself, and at once when the account
is deleted. The agent asks for the next one with the one it has; a Role by name lets it do that for its own account and
no other. The alternative, a client certificate by the CSR API, needs an approver and a signer, which some managed hubs
do not run for clients, and nobody can revoke it. TokenRequest is served by every hub that runs Pods.

The new token goes into the Secret of `webhook.member.membership.hub_secret` on the member, over the version that was
read, so that an agent that starts anew has it. Clocks are not compared: how long a token lasts is the difference of two
times of the hub, and its age is not asked for, since the agent renews whenever it starts. While the hub is away, the
agent keeps trying, and has almost a whole life of a token until it needs ``harbormaster join`` again; when that has
written a new token into the Secret, the agent takes it from there.

Source: Kubernetes, Managing Service Accounts, TokenRequest API.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from scorer.api.kinds import KINDS
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dict_at, status_of, text_at
from scorer.membership.heartbeats import read_time
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.paths import path_of
from webhook.kube.login.connection import ConfigurationError, Login
from webhook.kube.ports import ForbiddenError, Key, Store, StoreError
from webhook.kube.transport.addresses import check_remote
from webhook.member.membership.hub_secret import SECRET, HubAccess, InvalidSecretError

SERVICE_ACCOUNT: Final = KINDS["", "ServiceAccount"]
RETRY_SECONDS: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
"""How long to wait after each failure in a row; the last value repeats."""
SHORTEST_LIFE_SECONDS: Final = 600
"""No API server gives a token for less."""

_log = logging.getLogger(__name__)


class Token(NamedTuple):
    """A token, and how long it lasts from when it was made."""

    text: str
    life_seconds: float


async def request_token(hub: ApiServer, account: Key, seconds: float) -> Token:
    """Ask for a token of a ServiceAccount.

    Args:
        hub: Where the account is.
        account: Its name and namespace.
        seconds: How long it should last; the server may grant less.

    Raises:
        StoreError: The server did not answer, or refused.
    """
    question = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": int(seconds)},
    }
    answer = await hub.request("POST", path_of(SERVICE_ACCOUNT, account.namespace, account.name, "token"), question)
    text = text_at(answer, "status", "token")
    if not text:
        raise StoreError(f"the hub sent no token for ServiceAccount {account.namespace}/{account.name}")
    created = read_time(text_at(answer, "metadata", "creationTimestamp"))
    ends = read_time(status_of(answer).get("expirationTimestamp"))
    if created is None or ends is None:
        return Token(text, SHORTEST_LIFE_SECONDS)
    return Token(text, (ends - created).total_seconds())


class HubToken:
    """The token of one agent, kept valid.

    Args:
        member: Where the Secret is.
        key: Of the Secret.
        access: What the Secret said when the agent started.
        life_seconds: How long a token should last.
        renewal_seconds: How long a token is used, at most a third of its life.
    """

    def __init__(
        self, member: Store, key: Key, access: HubAccess, *, life_seconds: float, renewal_seconds: float
    ) -> None:
        self._member = member
        self._key = key
        self._access = access
        self._token = access.token
        self._life_seconds = life_seconds
        self._renewal_seconds = renewal_seconds
        self.problem = ""
        """Why the last attempt to renew the token failed; empty: it did not."""

    def login(self) -> Login:
        """Return the login for the hub. Raises `webhook.kube.login.connection.ConfigurationError`."""
        return self._access.endpoint.login(self._credentials)

    async def reread(self) -> Login:
        """Return the login that the Secret holds now, with its token if another client has written one there.

        Raises:
            webhook.kube.login.connection.ConfigurationError: The Secret cannot be read or used.
        """
        access = await read_access(self._member, self._key, self._access.member)
        if access.server == self._access.server:  # else the caller refuses it, and goes on with what it has
            if access.token != self._access.token:
                self._token = access.token
            self._access = access
        return access.endpoint.login(self._credentials)

    async def _credentials(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self._token}"}

    async def keep_valid(self, hub: ApiServer, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Renew the token now and from then on, until cancelled.

        Args:
            hub: Logged in to with this token.
            sleep: Sleeps for a number of seconds.
        """
        failures = 0
        while True:
            try:
                seconds = await self.renew(hub)
            except StoreError as error:
                if str(error) != self.problem:
                    _log.warning("token for the hub not renewed, will try again", extra={"error": str(error)})
                self.problem = str(error)
                seconds = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]
                failures += 1
            else:
                self.problem, failures = "", 0
            await sleep(seconds)

    async def renew(self, hub: ApiServer) -> float:
        """Put a new token in the place of the present one; return after how many seconds to do that again.

        Raises:
            StoreError: The hub gave none, so the present one stays in use; or the new one, which is in use now, was not
                stored.
        """
        token = await self._request(hub)
        self._token = token.text
        await self._store(token.text)
        return min(self._renewal_seconds, token.life_seconds / 3)

    async def _request(self, hub: ApiServer) -> Token:
        """Ask for a token with ours, and if the hub does not accept that, with the one that is in the Secret now."""
        account = Key(self._access.account, self._access.namespace)
        try:
            return await request_token(hub, account, self._life_seconds)
        except ForbiddenError as error:
            secret = await self._read()
            try:
                token = HubAccess.read(secret).token
            except InvalidSecretError as unusable:
                raise StoreError(f"{error}; Secret {self._key.namespace}/{self._key.name}: {unusable}") from error
            if token == self._token:
                raise
            self._token = token
            return await request_token(hub, account, self._life_seconds)

    async def _store(self, token: str) -> None:
        """Write a token into the Secret and nothing else, over the version that is read now."""
        secret = await self._read()
        data = {**dict_at(secret, "data"), **self._access.renewed(token).token_data()}
        await self._member.replace(SECRET, {**secret, "data": data})
        self._access = self._access.renewed(token)

    async def _read(self) -> JsonObject:
        try:
            return await self._member.get(SECRET, self._key)
        except StoreError as error:
            raise StoreError(f"Secret {self._key.namespace}/{self._key.name} on the member: {error}") from error


async def read_access(member: Store, key: Key, cluster: str) -> HubAccess:
    """Read the Secret on the member.

    Args:
        member: Where it is.
        key: Of the Secret.
        cluster: The member that it must be for.

    Raises:
        ConfigurationError: It cannot be read or used, is for another member, or no token may be sent to its hub.
    """
    subject = f"Secret {key.namespace}/{key.name} on the member"
    try:
        access = HubAccess.read(await member.get(SECRET, key))
    except (StoreError, InvalidSecretError) as error:
        advice = f"`harbormaster join {cluster}` writes it; or name a kubeconfig: --hub-kubeconfig FILE"
        raise ConfigurationError(f"{subject}: {error}; {advice}") from error
    if access.member != cluster:
        raise ConfigurationError(f"{subject}: data.member: {access.member!r}: this is the agent of {cluster!r}")
    try:
        check_remote(access.server)
    except ValueError as error:
        raise ConfigurationError(f"{subject}: data.server: {access.server[:128]!r}: {error}") from error
    return access
