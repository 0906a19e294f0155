"""Reads the roles of a cluster, and asks its API server whether it allows rights."""

import asyncio
from collections.abc import Iterable
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import status_of
from webhook.doctor.rights import Right, Roles
from webhook.kube.access.reviews import MAX_CONCURRENT_REVIEWS
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore
from webhook.kube.client.paths import ApiPath
from webhook.kube.ports import ForbiddenError
from webhook.processes.rbac import RBAC_KINDS

_REVIEW: Final = ApiPath("apis", "authorization.k8s.io", "v1", "subjectaccessreviews")


async def read_roles(store: HubStore) -> Roles:
    """Read all roles and bindings of a cluster. Raises `StoreError`."""
    role, cluster_role, binding, cluster_binding = [(await store.list(kind)).items for kind in RBAC_KINDS]
    return Roles.of((*role, *cluster_role), (*binding, *cluster_binding))


async def denied(server: ApiServer, username: str, rights: Iterable[Right]) -> list[Right] | None:
    """Return which of *rights*, at least one, the API server denies a user. None: unknown, the caller may not ask it.

    Raises:
        StoreError: The API server does not respond.
    """
    turns = asyncio.Semaphore(MAX_CONCURRENT_REVIEWS)

    async def ask(right: Right) -> Right | None:
        async with turns:
            return None if await _is_allowed(server, username, right) else right

    first, *others = sorted(rights)
    try:
        answers = [await ask(first)]
    except ForbiddenError:
        return None
    answers += await asyncio.gather(*(ask(right) for right in others))
    return [right for right in answers if right is not None]


async def _is_allowed(server: ApiServer, username: str, right: Right) -> bool:
    if right.resource.startswith("/"):
        attributes: JsonObject = {"nonResourceAttributes": {"path": right.resource, "verb": right.verb}}
    else:
        plural, _, subresource = right.resource.partition("/")
        resource_attributes = {
            "resource": plural,
            "subresource": subresource,
            "namespace": right.where,
            "name": right.name,
        }
        resource_attributes |= {"verb": right.verb, "group": right.group}
        attributes = {"resourceAttributes": {key: value for key, value in resource_attributes.items() if value}}
    spec = {"user": username, "groups": groups_of(username), **attributes}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return status_of(await server.request("POST", _REVIEW, review)).get("allowed") is True


def groups_of(username: str) -> list[str]:
    """Return the groups that an API server derives from a user name."""
    groups = ["system:authenticated"]
    prefix = "system:serviceaccount:"
    if username.startswith(prefix):
        namespace = username.removeprefix(prefix).partition(":")[0]
        groups += ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    return groups
