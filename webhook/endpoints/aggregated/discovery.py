"""Discovery documents of the aggregated API.

Like a SubjectAccessReview, every resource can only be created: the body is the question, and the response the answer.
Nothing is stored, so no controller of Kubernetes lists, watches or deletes the resources of a namespace.

Source: docs/specifications/serving.md 3.6.
"""

from typing import Final

from aiohttp import web

from webhook.access.front_proxy import GROUP, RESOURCES, VERSION
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.responses import AggregatedResource, unstored

_GROUP_VERSION: Final = f"{GROUP}/{VERSION}"
_NAMED_VERSION: Final = {"groupVersion": _GROUP_VERSION, "version": VERSION}
API_GROUP: Final = {
    "kind": "APIGroup",
    "apiVersion": "v1",
    "name": GROUP,
    "versions": [_NAMED_VERSION],
    "preferredVersion": _NAMED_VERSION,
}
API_RESOURCE_LIST: Final = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": _GROUP_VERSION,
    "resources": [
        {"name": name, "singularName": kind.lower(), "namespaced": True, "kind": kind, "verbs": ["create"]}
        for name, kind in RESOURCES.items()
    ],
}


def add_routes(api: Api) -> None:
    """Serve both documents to the front proxy. Its availability checks fail if this server does not recognize it."""

    async def group(_request: web.Request) -> web.Response:
        return unstored(API_GROUP)

    async def resources(_request: web.Request) -> web.Response:
        return unstored(API_RESOURCE_LIST)

    api.aggregate(f"/apis/{GROUP}", AggregatedResource(GROUP), group)
    api.aggregate(f"/apis/{_GROUP_VERSION}", AggregatedResource(GROUP), resources)
