"""Where requests of ours go: to addresses that an operator has named, and to no other."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache

import pytest

from tests.contracts.sources import PACKAGES, sources

OPENS = frozenset(
    {"ClientSession", "open_connection", "create_connection", "urlopen", "HTTPConnection", "HTTPSConnection"}
    | {"WsApiClient", "ApiClient"}
)
"""What opens a connection to somewhere else."""
OPENING = {
    "webhook/kube/transport/sessions.py": "the upgrader and the receiver of notifications of the settings, the "
    "provider of the settings and what it names itself, over https",
    "webhook/controllers/staged_updates/query_endpoints.py": "the query endpoints of the settings",
    "webhook/kube/client/api_server.py": "the server of a kubeconfig, of an option or of the Pod, and the hub "
    "of an agent",
    "webhook/kube/client/cli_client.py": "the same, for commands",
    "webhook/server/server.py": "its own listener",
}
CALLS_OUTSIDE = frozenset({"webhook/kube/transport/signed_post.py", "webhook/sign_in/provider.py"})
READS_KUBECONFIGS = frozenset({"load_kube_config", "load_incluster_config", "read_login", "read_endpoint"})
KUBECONFIGS_FROM = ("webhook/cli/", "webhook/processes/", "webhook/kube/")
"""Where the path of a kubeconfig comes from the command line; no store, handler or controller reads one."""


OTHERS = frozenset({"load_kube_config_from_dict", "new_client_from_config_dict", "KubeConfigLoader"})
WATCHED = OPENS | READS_KUBECONFIGS | OTHERS | {"session_with"}


def called(source: str) -> Iterator[str]:
    """Yield the names of the calls in a module, if one that is watched for stands in it at all."""
    if not any(name in source for name in WATCHED):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    yield name


@cache
def called_by_file() -> Mapping[str, frozenset[str]]:
    return {path: frozenset(called(source)) for path, source in sources(*PACKAGES)}


def test_connections_are_opened_in_few_places():
    assert {path for path, names in called_by_file().items() if OPENS & names} == OPENING.keys()


def test_calls_outside_are_made_in_few_places():
    assert {path for path, names in called_by_file().items() if "session_with" in names} == CALLS_OUTSIDE


def test_kubeconfigs_are_files_that_an_operator_has_named():
    """One that is found in the cluster could run programs and read files with our rights."""
    reading = {path for path, names in called_by_file().items() if READS_KUBECONFIGS & names}
    assert {path for path in reading if not path.startswith(KUBECONFIGS_FROM)} == set()
    assert "webhook/kube/login/credentials.py" in reading
    assert not [path for path, names in called_by_file().items() if OTHERS & names]


@pytest.mark.parametrize("source", ["aiohttp.ClientSession()", "async def f():\n    await open_connection(a, 1)"])
def test_an_opened_connection_is_seen(source):
    assert OPENS & set(called(source))
