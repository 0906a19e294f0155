"""The aggregated API, and the user that its front proxy names in headers: the aggregation layer of kube-apiserver.

kube-apiserver authenticates the user, authorizes the request and proxies it, with the user in headers and without the
user's credentials. The headers count only on a connection with the certificate of the front proxy.

Source: docs/specifications/serving.md 3.6; Kubernetes, Configure the Aggregation Layer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import unquote

from webhook.access.user import UserInfo

GROUP: Final = "answers.harbormaster.dev"
VERSION: Final = "v1"
API_SERVICE: Final = f"{VERSION}.{GROUP}"
"""Name of the APIService, which Kubernetes prescribes."""
EXPLANATIONS: Final = "explanations"
HISTORIES: Final = "histories"
PAST_DECISIONS: Final = "pastdecisions"
PLACEMENT_PLANS: Final = "placementplans"
RENDERINGS: Final = "renderings"
RESOURCES: Final = {
    EXPLANATIONS: "Explanation",
    HISTORIES: "History",
    PAST_DECISIONS: "PastDecisions",
    PLACEMENT_PLANS: "PlacementPlan",
    RENDERINGS: "Rendering",
}
"""Kinds of the resources, by plural. Each can only be created, in a namespace."""

MOST_VALUES: Final = 1000
"""Maximum number of groups and values of extra fields together. A request with more is refused."""


USER: Final = "X-Remote-User"
GROUP_OF_USER: Final = "X-Remote-Group"
UID: Final = "X-Remote-Uid"
EXTRA: Final = "X-Remote-Extra-"
"""Headers with the user, one of the user's groups, the UID, and values of an extra field.

kube-apiserver removes these from every request before it sets them. It may be configured to accept other names from a
proxy in front of it, and does not remove those in every version, so only these count.
"""


class Headers(Protocol):
    """The headers of a request, by names in any case."""

    def getall(self, key: str, default: list[str]) -> list[str]:
        """Return all values of a header."""
        ...

    def keys(self) -> Iterable[str]:
        """Return the names, repeated for each value."""
        ...


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """The front proxy of a hub.

    Args:
        allowed_names: Common names of its certificate. Empty: any, as in kube-apiserver.
        sends_uid: Whether it sends the UID of the user. Older versions pass on a UID that the client has sent.
    """

    allowed_names: frozenset[str] = frozenset()
    sends_uid: bool = False

    def allows(self, common_name: str) -> bool:
        """Return whether a certificate with this common name, signed by a front-proxy CA, may name users."""
        return not self.allowed_names or common_name in self.allowed_names

    def user(self, headers: Headers) -> UserInfo | None:
        """Return the user in the headers, or None if they name none or several.

        Also None if the headers have more than `MOST_VALUES` groups and values of extra fields.
        """
        usernames = headers.getall(USER, [])
        if len(usernames) != 1 or not usernames[0]:
            return None
        groups = [group for group in headers.getall(GROUP_OF_USER, []) if group]
        extra = _extra_of(headers)
        if len(groups) + sum(map(len, extra.values())) > MOST_VALUES:
            return None
        uid = headers.getall(UID, [])[:1] if self.sends_uid else []
        return UserInfo(usernames[0], frozenset(groups), "".join(uid), extra)


def _extra_of(headers: Headers) -> Mapping[str, tuple[str, ...]]:
    """Return the extra fields of the user. None may be missing: an authorizer may limit a user by them."""
    extra: dict[str, tuple[str, ...]] = {}
    for name in dict.fromkeys(name.lower() for name in headers.keys()):  # noqa: SIM118 - no __iter__ in the Protocol
        if name.startswith(EXTRA.lower()):
            key = unquote(name.removeprefix(EXTRA.lower())).lower()
            extra[key] = (*extra.get(key, ()), *headers.getall(name, []))
    return extra
