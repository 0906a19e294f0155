"""The Secret on the member with the hub's address and the agent's token.

``harbormaster join`` writes it, and the agent writes each new token into it (`webhook.member.membership.hub_token`), so
that the token outlives the Pod. It has the same name in every member, so that the agent's Role can name it.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self

from scorer.api.kinds import KINDS
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dict_at
from webhook.kube.login.connection import ApiServerEndpoint

SECRET: Final = KINDS["", "Secret"]
HUB_SECRET: Final = "harbormaster-hub"  # noqa: S105 - its name

_KEYS: Final = {
    "member": "member",
    "hub": "hub",
    "namespace": "namespace",
    "account": "account",
    "token": "token",
    "server": "server",
    "authorities": "ca.crt",
    "server_name": "tls-server-name",
    "proxy": "proxy-url",
}
"""Field of `HubAccess` to key of the Secret."""
_OPTIONAL: Final = frozenset({"authorities", "server_name", "proxy"})


class InvalidSecretError(Exception):
    """The Secret is unusable. The message names the key."""


@dataclass(frozen=True, slots=True)
class HubAccess:
    """Login of one member's agent to the hub.

    Args:
        member: Name of the MemberCluster.
        hub: The uid of the hub's namespace kube-system.
        namespace: Namespace of the ServiceAccount on the hub.
        account: Name of the ServiceAccount.
        token: A token of it.
        server, authorities, server_name, proxy: As `ApiServerEndpoint`.
    """

    member: str
    hub: str
    namespace: str
    account: str
    token: str
    server: str
    authorities: str = ""
    server_name: str = ""
    proxy: str = ""

    @classmethod
    def read(cls, secret: Mapping[str, Any]) -> Self:
        """Parse a Secret.

        Raises:
            InvalidSecretError: A required key is missing, or a value is not base64 of printable ASCII text (``ca.crt``:
                of any text).
        """
        data = dict_at(secret, "data")
        return cls(**{field: _text(data, key, is_required=field not in _OPTIONAL) for field, key in _KEYS.items()})

    @property
    def endpoint(self) -> ApiServerEndpoint:
        """The hub, without the credentials."""
        return ApiServerEndpoint(self.server, self.authorities, self.server_name, self.proxy)

    @property
    def username(self) -> str:
        """The user that the token authenticates."""
        return f"system:serviceaccount:{self.namespace}:{self.account}"

    def renewed(self, token: str) -> "HubAccess":
        """Return a copy with another token."""
        return replace(self, token=token)

    def data(self) -> JsonObject:
        """Return ``data`` of the Secret, without empty fields."""
        values = {_KEYS[field.name]: getattr(self, field.name) for field in fields(self)}
        return {key: _encoded(value) for key, value in values.items() if value}

    def token_data(self) -> JsonObject:
        """Return the part of ``data`` that changes on renewal."""
        return {_KEYS["token"]: _encoded(self.token)}


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _text(data: Mapping[str, Any], key: str, *, is_required: bool) -> str:
    encoded = data.get(key)
    if not encoded:
        if is_required:
            raise InvalidSecretError(f"data.{key} is missing")
        return ""
    try:
        text = base64.b64decode(str(encoded), validate=True).decode()
    except ValueError as error:
        raise InvalidSecretError(f"data.{key}: must be base64-encoded text") from error
    if key != _KEYS["authorities"] and not (text.isascii() and text.isprintable()):
        raise InvalidSecretError(f"data.{key}: must be printable ASCII text without line breaks")
    return text
