"""Paths to an API server, and what a server is really asked for."""

import pytest
from aiohttp import web

from scorer.api.kinds import KINDS, NAMESPACE, PLACEMENT, POD, Kind
from tests.loopback import on_loopback
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore
from webhook.kube.login.connection import Login
from webhook.kube.ports import InvalidObjectError, Key, NotFoundError
from webhook.member.store.api_server import RemoteMember

CLUSTER_ROLE = KINDS["rbac.authorization.k8s.io", "ClusterRole"]
BOAT = Kind("example.com", ("v1",), "Boat", "boats", True)
LEADING_OUT = [
    pytest.param(Key("../../../../../apis/apps/v1/deployments", "shop"), id="name"),
    pytest.param(Key("a", "../../secrets"), id="namespace"),
    pytest.param(Key("..", "shop"), id="parent"),
    pytest.param(Key(".", "shop"), id="itself"),
    pytest.param(Key("%2e%2e", "shop"), id="quoted-parent"),
    pytest.param(Key("a%2fb", "shop"), id="quoted-slash"),
    pytest.param(Key("a/b", "shop"), id="slash"),
    pytest.param(Key("a?watch=1", "shop"), id="query"),
    pytest.param(Key("a#b", "shop"), id="fragment"),
    pytest.param(Key("a\nb", "shop"), id="newline"),
    pytest.param(Key("", "shop"), id="no-name"),
]


@pytest.fixture
async def asked():
    """Yield the address of a server and the request lines it has got."""
    lines = []

    async def answer(request):
        lines.append(f"{request.method} {request.raw_path}")
        return web.json_response({"metadata": {"name": "a"}})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with on_loopback(app) as address, ApiServer(Login(address)) as server:
        yield server, lines


@pytest.mark.parametrize("key", LEADING_OUT)
async def test_a_name_that_leads_out_of_its_place_is_never_asked_for(asked, key):
    """A review of ``pods/eviction`` with such a name made us get any path with our token."""
    server, lines = asked
    with pytest.raises(NotFoundError):  # nothing is called that
        await HubStore(server).get(POD, key)
    with pytest.raises(InvalidObjectError):
        await HubStore(server).delete(POD, key)
    with pytest.raises(InvalidObjectError):
        await RemoteMember(server).delete(POD, key)
    document = {"metadata": {"name": key.name, "namespace": key.namespace}}
    with pytest.raises(InvalidObjectError):
        await HubStore(server).replace_status(POD, document)
    assert lines == []


@pytest.mark.parametrize("name", ["../../secrets", "..", "a/b", "a%2fb", "a\x00b", "\ud800"])
@pytest.mark.parametrize("kind", [CLUSTER_ROLE, BOAT], ids=str)
async def test_kinds_with_free_names_are_asked_for_within_their_place(asked, kind, name):
    server, lines = asked
    with pytest.raises(NotFoundError):
        await HubStore(server).get(kind, Key(name))
    with pytest.raises(InvalidObjectError):
        await HubStore(server).delete(kind, Key(name))
    assert lines == []


@pytest.mark.parametrize(
    ("kind", "key", "path"),
    [
        (PLACEMENT, Key("shop"), "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements/shop"),
        (POD, Key("web-0", "shop"), "/api/v1/namespaces/shop/pods/web-0"),
        (NAMESPACE, Key("shop"), "/api/v1/namespaces/shop"),
        (
            CLUSTER_ROLE,
            Key("system:a b?c#d"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Aa%20b%3Fc%23d",
        ),
        (BOAT, Key("Große+Fähre", "sea"), "/apis/example.com/v1/namespaces/sea/boats/Gro%C3%9Fe%2BF%C3%A4hre"),
    ],
    ids=["custom", "namespaced", "namespace", "free", "unknown"],
)
async def test_every_segment_goes_out_quoted_once(asked, kind, key, path):
    server, lines = asked
    await HubStore(server).get(kind, key)
    assert lines == [f"GET {path}"]
