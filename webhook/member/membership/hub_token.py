"""The agent's ServiceAccount token for the hub, and its renewal by TokenRequest.

A token of a ServiceAccount on the hub, issued by the TokenRequest API. It expires, and is revoked immediately when the
account is deleted. The agent uses the current token to request the next one. A Role restricted by name permits that for
its own account only. The alternative, a client certificate by the CSR API, needs an approver and a signer, which some
managed hubs do not run for clients, and cannot be revoked. Every hub that runs Pods serves TokenRequest.

The agent writes the new token into the Secret of `webhook.member.membership.hub_secret` on the member, at the version
that was read, so that a restarted agent has it. Clocks are not compared. The lifetime of a token is the difference of
two times of the hub. Its age does not matter, because the agent renews at every start. While the hub is unreachable,
the agent retries for almost the whole lifetime of a token before it needs ``harbormaster join`` again. Once that
command has written a new token into the Secret, the agent reads it there.

Source: Kubernetes, Managing Service Accounts, TokenRequest API.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from scorer.api.kinds import KINDS
from scorer.api.meta import JsonObject, read_instant
from scorer.api.unstructured.documents import dict_at, status_of, text_at
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.paths import path_of
from webhook.kube.login.connection import Login
from webhook.kube.login.kubeconfig import ConfigurationError
from webhook.kube.ports import ForbiddenError, Key, Store, StoreError
from webhook.kube.transport.addresses import check_remote
from webhook.member.membership.hub_secret import SECRET, HubAccess, InvalidSecretError

SERVICE_ACCOUNT: Final = KINDS["", "ServiceAccount"]
RETRY_SECONDS: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Backoff after consecutive failures. The last value repeats."""
SHORTEST_LIFE_SECONDS: Final = 600
"""Minimum lifetime of a token on any API server."""

_log = logging.getLogger(__name__)


class Token(NamedTuple):
    """A token, and its lifetime from its creation."""

    text: str
    life_seconds: float


async def request_token(hub: ApiServer, account: Key, seconds: float) -> Token:
    """Request a token of a ServiceAccount.

    Args:
        hub: API server of the account.
        account: Name and namespace of the ServiceAccount.
        seconds: Requested lifetime. The server may grant less.

    Raises:
        StoreError: The server did not respond, or refused.
    """
    question = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": int(seconds)},
    }
    answer = await hub.request("POST", path_of(SERVICE_ACCOUNT, account.namespace, account.name, "token"), question)
    text = text_at(answer, "status", "token")
    if not text:
        raise StoreError(f"the hub returned no token for ServiceAccount {account.namespace}/{account.name}")
    created = read_instant(text_at(answer, "metadata", "creationTimestamp"))
    ends = read_instant(status_of(answer).get("expirationTimestamp"))
    if created is None or ends is None:
        return Token(text, SHORTEST_LIFE_SECONDS)
    return Token(text, (ends - created).total_seconds())


class HubToken:
    """Keeps the token of one agent valid.

    Args:
        member: Store of the Secret.
        key: Key of the Secret.
        access: Content of the Secret when the agent started.
        life_seconds: Requested lifetime of a token.
        renewal_seconds: Time between renewals, at most a third of the lifetime.
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
        """Why the last renewal failed, empty if it succeeded."""

    def login(self) -> Login:
        """Return the login for the hub. Raises `webhook.kube.login.connection.ConfigurationError`."""
        return self._access.endpoint.login(self._credentials)

    async def reread(self) -> Login:
        """Return the login in the Secret, with its token if another client has written one.

        Raises:
            webhook.kube.login.connection.ConfigurationError: The Secret cannot be read or used.
        """
        access = await read_access(self._member, self._key, self._access.member)
        if access.server == self._access.server:  # otherwise the caller refuses it, and keeps the current login
            if access.token != self._access.token:
                self._token = access.token
            self._access = access
        return access.endpoint.login(self._credentials)

    async def _credentials(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self._token}"}

    async def keep_valid(self, hub: ApiServer, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Renew the token immediately and then periodically, until cancelled.

        Args:
            hub: The hub, accessed with this token.
            sleep: Sleeps for a number of seconds.
        """
        failures = 0
        while True:
            try:
                seconds = await self.renew(hub)
            except StoreError as error:
                if str(error) != self.problem:
                    _log.warning("token for the hub not renewed, will retry", extra={"error": str(error)})
                self.problem = str(error)
                seconds = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]
                failures += 1
            else:
                self.problem, failures = "", 0
            await sleep(seconds)

    async def renew(self, hub: ApiServer) -> float:
        """Replace the current token with a new one, and return the seconds until the next renewal.

        Raises:
            StoreError: The hub granted no token, so the current one remains in use. Or the new token is in use, but
                was not stored.
        """
        token = await self._request(hub)
        self._token = token.text
        await self._store(token.text)
        return min(self._renewal_seconds, token.life_seconds / 3)

    async def _request(self, hub: ApiServer) -> Token:
        """Request a token with the current one, or if the hub rejects the current one, with the token in the Secret.

        Raises:
            StoreError: The hub rejects both or does not respond, or the Secret is invalid.
        """
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
        """Write only the token into the Secret, at the version that is read here."""
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
        member: Store of the Secret.
        key: Key of the Secret.
        cluster: Required member of the Secret.

    Raises:
        ConfigurationError: The Secret cannot be read or used, is for another member, or no token may be sent to its
            hub.
    """
    subject = f"Secret {key.namespace}/{key.name} on the member"
    try:
        access = HubAccess.read(await member.get(SECRET, key))
    except (StoreError, InvalidSecretError) as error:
        advice = f"run `harbormaster join {cluster}`, or set --hub-kubeconfig FILE"
        raise ConfigurationError(f"{subject}: {error}. To fix it, {advice}") from error
    if access.member != cluster:
        raise ConfigurationError(f"{subject}: data.member: {access.member!r}: this is the agent of {cluster!r}")
    try:
        check_remote(access.server)
    except ValueError as error:
        raise ConfigurationError(f"{subject}: data.server: {access.server[:128]!r}: {error}") from error
    return access
