"""The proxy that spoils the network for other tests does what it says, and nothing when it says nothing."""

import base64
import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.controlplane.cluster import LOOPBACK, Cluster, JsonObject
from e2e.controlplane.fault_proxy import EVERYTHING, NO_FAULTS, FaultProxy, Faults
from e2e.controlplane.process import PATIENCE
from e2e.controlplane.shared import started

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def running(bare_hub: Cluster, folder: Path) -> Iterator[FaultProxy]:
    with started(FaultProxy(bare_hub, folder / "fault-proxy")) as found:
        yield found


@pytest.fixture
def proxy(running: FaultProxy) -> Iterator[FaultProxy]:
    yield running
    running.heal()
    maps, _ = running.cluster.request("GET", f"{CONFIG_MAPS}?labelSelector=of=proxy")
    for item in maps["items"]:
        running.cluster.request("DELETE", f"{CONFIG_MAPS}/{item['metadata']['name']}")


def config_map(name: str) -> JsonObject:
    metadata = {"name": name, "namespace": "default", "labels": {"of": "proxy"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def connect(proxy: FaultProxy, seconds: float = PATIENCE) -> tuple[http.client.HTTPSConnection, dict[str, str]]:
    """Connect as the kubeconfig of the proxy says."""
    config = json.loads(proxy.kubeconfig("tester", proxy.cluster.users["admin"].token).read_text(encoding="utf-8"))
    cluster = config["clusters"][0]["cluster"]
    trust = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    assert cluster["server"] == f"https://{LOOPBACK}:{proxy.port}"
    token = config["users"][0]["user"]["token"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    return http.client.HTTPSConnection(LOOPBACK, proxy.port, timeout=seconds, context=trust), headers


def ask(
    proxy: FaultProxy, method: str, path: str, body: object = None, seconds: float = PATIENCE
) -> tuple[int, JsonObject]:
    connection, headers = connect(proxy, seconds)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def exists(proxy: FaultProxy, name: str) -> bool:
    items = proxy.cluster.request("GET", f"{CONFIG_MAPS}?labelSelector=of=proxy")[0]["items"]
    return any(item["metadata"]["name"] == name for item in items)


def test_without_faults_everything_passes_unchanged(proxy):
    assert ask(proxy, "POST", CONFIG_MAPS, config_map("a"))[0] == 201
    direct, _ = proxy.cluster.request("GET", f"{CONFIG_MAPS}/a")
    assert ask(proxy, "GET", f"{CONFIG_MAPS}/a") == (200, direct)
    code, status = ask(proxy, "GET", f"{CONFIG_MAPS}/nobody?x=%2F%3D")
    assert (code, status["reason"]) == (404, "NotFound")
    assert proxy.counts() == {"passed": 3}


@pytest.mark.parametrize("code", ["409", "429", "500", "503"])
@pytest.mark.parametrize(
    ("after", "written"), [pytest.param(0.0, False, id="before"), pytest.param(1.0, True, id="after")]
)
def test_an_answer_of_its_own_before_or_after_the_write(proxy, code, after, written):
    proxy.set(Faults(share=1, faults=(code,), after=after))
    name = f"of-{code}-{int(after)}"
    status, document = ask(proxy, "POST", CONFIG_MAPS, config_map(name))
    assert (str(status), document["kind"], document["code"]) == (code, "Status", status)
    assert exists(proxy, name) is written
    assert proxy.counts() == {f"{code} after" if after else code: 1}


@pytest.mark.parametrize(
    ("after", "written"), [pytest.param(0.0, False, id="before"), pytest.param(1.0, True, id="after")]
)
@pytest.mark.parametrize("fault", ["drop", "hang"])
def test_a_connection_that_ends_without_an_answer(proxy, fault, after, written):
    proxy.set(Faults(share=1, faults=(fault,), after=after, hang_seconds=0.5))
    name = f"of-{fault}-{int(after)}"
    started = time.monotonic()
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError, ssl.SSLError)):
        ask(proxy, "POST", CONFIG_MAPS, config_map(name))
    if fault == "hang":
        assert time.monotonic() - started >= 0.5
    assert proxy.counts() == {f"{fault} after" if after else fault: 1}
    assert exists(proxy, name) is written


def test_a_hanging_request_outlasts_its_client(proxy):
    proxy.set(Faults(share=1, faults=("hang",), after=0))
    with pytest.raises(TimeoutError):
        ask(proxy, "POST", CONFIG_MAPS, config_map("hanging"), seconds=0.5)
    assert not exists(proxy, "hanging")


def test_a_delayed_request_takes_place_once(proxy):
    proxy.set(Faults(share=1, faults=("delay",), delay_seconds=0.5))
    started = time.monotonic()
    assert ask(proxy, "POST", CONFIG_MAPS, config_map("delayed"))[0] == 201
    assert time.monotonic() - started >= 0.5
    assert proxy.counts() == {"delay": 1}


def test_equal_seeds_throw_equal_dice_and_the_share_holds(proxy):
    def throw(seed: int) -> list[int]:
        proxy.set(Faults(seed=seed, share=0.3, faults=("500",), after=0, methods=("GET",), path="configmaps"))
        return [ask(proxy, "GET", CONFIG_MAPS)[0] for _ in range(60)]

    first = throw(1)
    assert throw(1) == first
    assert throw(2) != first
    assert 8 <= first.count(500) <= 28
    assert set(first) == {200, 500}


def test_only_what_was_chosen_is_spoilt(proxy):
    proxy.set(Faults(share=1, faults=("500",), methods=("PUT",), path="/configmaps/"))
    assert ask(proxy, "POST", CONFIG_MAPS, config_map("chosen"))[0] == 201
    assert ask(proxy, "GET", f"{CONFIG_MAPS}/chosen")[0] == 200
    assert ask(proxy, "PUT", f"{CONFIG_MAPS}/chosen", config_map("chosen"))[0] == 500
    with pytest.raises(ValueError, match="teapot"):
        Faults(faults=("teapot",))


class Watching(threading.Thread):
    """Reads a watch through the proxy until it ends."""

    def __init__(self, proxy: FaultProxy) -> None:
        super().__init__(daemon=True)
        self.events: list[JsonObject] = []
        self.ended = threading.Event()
        version = proxy.cluster.request("GET", CONFIG_MAPS)[0]["metadata"]["resourceVersion"]
        self._connection, headers = connect(proxy)
        path = f"{CONFIG_MAPS}?watch=true&labelSelector=of%3Dproxy&resourceVersion={version}"
        self._connection.request("GET", path, None, headers)

    def run(self) -> None:
        try:
            with contextlib.closing(self._connection), self._connection.getresponse() as answer:
                while line := answer.readline():
                    self.events.append(json.loads(line))
        except (OSError, http.client.HTTPException):
            pass
        finally:
            self.ended.set()

    def wait_events(self, number: int, seconds: float = PATIENCE) -> None:
        end = time.monotonic() + seconds
        while len(self.events) < number:
            assert time.monotonic() < end, f"{len(self.events)} of {number} events"
            time.sleep(0.02)


def test_watches_pass_as_they_come_and_end_early_when_told(proxy):
    watching = Watching(proxy)
    watching.start()
    proxy.cluster.request("POST", CONFIG_MAPS, config_map("seen"))
    watching.wait_events(1)
    assert watching.events[0]["object"]["metadata"]["name"] == "seen"
    proxy.set(Faults(cut="refuse"))
    assert watching.ended.wait(PATIENCE), "the cut leaves the watch open"
    proxy.set(Faults(watch_seconds=0.5))
    short = Watching(proxy)
    short.start()
    assert short.ended.wait(PATIENCE)


def test_a_watch_is_told_that_its_version_is_too_old(proxy):
    proxy.set(Faults(watch_gone=1.0))
    watching = Watching(proxy)
    watching.start()
    assert watching.ended.wait(PATIENCE)
    assert [(event["type"], event["object"]["code"]) for event in watching.events] == [("ERROR", 410)]


def test_a_refusing_cut_ends_and_a_silent_one_waits(proxy):
    proxy.set(Faults(cut="refuse"))
    with pytest.raises((http.client.RemoteDisconnected, OSError)):
        ask(proxy, "GET", CONFIG_MAPS)
    proxy.set(Faults(cut="silence"))
    connection, headers = connect(proxy)
    connection.request("GET", CONFIG_MAPS, None, headers)
    connection.sock.settimeout(0.5)
    with pytest.raises((TimeoutError, socket.timeout)):
        connection.getresponse()
    connection.close()
    proxy.set(NO_FAULTS)
    assert ask(proxy, "GET", CONFIG_MAPS)[0] == 200


def test_every_fault_is_known():
    assert Faults(faults=EVERYTHING).faults == EVERYTHING
