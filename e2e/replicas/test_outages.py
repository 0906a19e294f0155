"""A replica that dies, hangs, comes back or changes its certificate: nothing gets in unseen, nothing else suffers."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from e2e.conftest import StartService
from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.controlplane.process import PATIENCE, kill
from e2e.controlplane.service import REGISTRATIONS, Service
from e2e.fleet.objects import MERGE
from e2e.fleet.waiting import wait_until
from e2e.placements import PLACEMENTS, placement
from tests.thoroughness import SOAK

pytestmark = pytest.mark.soak

WRITERS = 20
HANGING_SECONDS = 30 if SOAK else 12
"""Longer than the ten seconds that the API server waits for a hook."""
FAILED_CALL = "failed calling webhook"


@pytest.fixture
def replica(bare_hub: Cluster, start_service: StartService) -> Iterator[Service]:
    """A replica of the test's own, which the hub asks; everything written is removed at the end."""
    found = start_service(bare_hub)
    found.register()
    yield found
    kill(found.program)
    for kind in ("validating", "mutating"):
        bare_hub.request("DELETE", f"{REGISTRATIONS}/{kind}webhookconfigurations/harbormaster")
    for item in bare_hub.request("GET", PLACEMENTS)[0]["items"]:
        path = f"{PLACEMENTS}/{item['metadata']['name']}"
        if item["metadata"].get("finalizers"):
            bare_hub.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)
    bare_hub.request("DELETE", PLACEMENTS)


def wrong(name: str) -> JsonObject:
    """Nothing that the schema would refuse: only we know that this namespace is never placed."""
    document = placement(name)
    document["spec"]["resourceSelectors"][0]["name"] = "kube-system"
    return document


def config_map(hub: Cluster) -> None:
    path = "/api/v1/namespaces/default/configmaps?dryRun=All"
    hub.request("POST", path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bystander"}})


def test_a_dead_replica_keeps_our_kinds_as_they_are_and_touches_nothing_else(replica):
    """What is refused says why; deleting, finishing a deletion and everybody else's kinds go on."""
    hub = replica.cluster
    held = placement("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    for document in (placement("kept"), placement("gone"), held):
        hub.request("POST", PLACEMENTS, document)
    replica.program.stop(number=signal.SIGKILL)
    for document in (placement("good"), wrong("bad")):
        with pytest.raises(ApiError, match=FAILED_CALL) as error:
            hub.request("POST", PLACEMENTS, document)
        assert error.value.code == 500
    change = {"spec": {"policy": {"numberOfClusters": 9}}}
    with pytest.raises(ApiError, match=FAILED_CALL):
        hub.request("PATCH", f"{PLACEMENTS}/kept", change, content_type=MERGE)
    hub.request("DELETE", f"{PLACEMENTS}/gone")
    hub.request("DELETE", f"{PLACEMENTS}/held")
    hub.request("PATCH", f"{PLACEMENTS}/held", {"metadata": {"finalizers": None}}, content_type=MERGE)
    config_map(hub)
    hub.kubectl("create", "namespace", "bystander", "--dry-run=server")
    assert [item["metadata"]["name"] for item in hub.request("GET", PLACEMENTS)[0]["items"]] == ["kept"]
    replica.start()
    hub.request("POST", PLACEMENTS, placement("good"))
    with pytest.raises(ApiError) as error:
        hub.request("POST", PLACEMENTS, wrong("bad"))
    assert error.value.code == 422


def test_a_hanging_replica_costs_its_timeout_and_no_more(replica):
    """Stopped in the middle of writes: they fail after the hook's timeout, others do not notice."""
    hub = replica.cluster
    replica.program.send(signal.SIGSTOP)
    stopped = time.monotonic()
    try:
        with ThreadPoolExecutor(8) as pool:
            writing = [pool.submit(outcome, hub, document) for document in (placement("slow"), wrong("bad")) * 4]
            for _ in range(5):
                config_map(hub)
            assert {future.result() for future in writing} == {"failed"}
        hub.request("GET", PLACEMENTS)
        time.sleep(max(0.0, HANGING_SECONDS - (time.monotonic() - stopped)))
    finally:
        replica.program.send(signal.SIGCONT)
    wait_until_admitted(hub, "afterwards")
    assert outcome(hub, wrong("bad")) == "refused"
    assert {item["metadata"]["name"] for item in hub.request("GET", PLACEMENTS)[0]["items"]} == {"afterwards"}


def test_a_restart_while_many_write_lets_nothing_wrong_in(replica):
    """Drained and started again on the same port: a write is admitted, refused or fails, never waved through."""
    with many_writers(replica.cluster) as (results, written):
        for _ in range(2):
            wait_for_verdicts(results)
            replica.program.stop(seconds=PATIENCE)
            time.sleep(0.5)
            replica.start()
        wait_for_verdicts(results)
    assert results["refused"] > 0
    assert results["admitted"] > 0
    assert results["let in"] == 0
    assert written == names(replica.cluster)


def test_a_new_certificate_of_the_same_authority_is_noticed_by_nobody(replica):
    """Three leaves, twenty writers, not one failed write: open connections go on, new ones get the new leaf."""
    with many_writers(replica.cluster) as (results, written):
        for _ in range(3):
            before = renewals(replica)
            replica.replace_certificate(replica.authority)
            wait_for_renewal(replica, before)
    assert results["failed"] == 0
    assert results["let in"] == 0
    assert min(results["refused"], results["admitted"]) > 0
    assert written == names(replica.cluster)


def test_a_new_authority_is_taken_over_without_letting_anything_in(replica):
    """Leaf and authority change, the registration follows: until it has, new connections fail, and writes with them."""
    hub = replica.cluster
    with many_writers(hub) as (results, written):
        before = renewals(replica)
        replica.replace_certificate()
        wait_for_renewal(replica, before)
        replica.register()
        wait_for_verdicts(results)
    assert results["let in"] == 0
    assert min(results["refused"], results["admitted"]) > 0
    assert written == names(hub)
    assert outcome(hub, placement("afterwards")) == "admitted"


class many_writers:  # noqa: N801 - used as a function
    """Twenty threads that write right and wrong placements until the block ends; yields what came of it."""

    def __init__(self, hub: Cluster) -> None:
        self._hub = hub
        self._stop = threading.Event()
        self._numbers = count()
        self._lock = threading.Lock()
        self.results: Counter[str] = Counter()
        self.written: set[str] = set()

    def __enter__(self) -> tuple[Counter[str], set[str]]:
        self._threads = [threading.Thread(target=self._write) for _ in range(WRITERS)]
        for thread in self._threads:
            thread.start()
        return self.results, self.written

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _write(self) -> None:
        while not self._stop.is_set():
            number = next(self._numbers)
            is_wrong = number % 2 == 1
            name = f"p{number}"
            result = outcome(self._hub, wrong(name) if is_wrong else placement(name))
            if is_wrong and result == "admitted":
                result = "let in"
            with self._lock:
                self.results[result] += 1
                if result in {"admitted", "let in"}:
                    self.written.add(name)


def outcome(hub: Cluster, document: JsonObject) -> str:
    """What becomes of a write: ``admitted``, ``refused`` for its content, or ``failed``."""
    try:
        hub.request("POST", PLACEMENTS, document)
    except ApiError as error:
        if error.code == 422:
            return "refused"
        assert FAILED_CALL in str(error), str(error)
        return "failed"
    return "admitted"


def names(hub: Cluster) -> set[str]:
    return {item["metadata"]["name"] for item in hub.request("GET", PLACEMENTS)[0]["items"]}


def wait_until_admitted(hub: Cluster, name: str, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while outcome(hub, placement(name)) != "admitted":
        assert time.monotonic() < end


def wait_for_verdicts(results: Counter[str]) -> None:
    """Wait until more writes were admitted, and more were refused."""
    before = dict(results)

    def problem() -> str:
        behind = [name for name in ("admitted", "refused") if results[name] < before.get(name, 0) + WRITERS]
        return f"too few writes were {', '.join(behind)}: {dict(results)}" if behind else ""

    wait_until("writes get their verdicts", problem)


def renewals(replica: Service) -> float:
    return replica.metric('harbormaster_certificate_renewals_total{result="success",role="leaf"}')


def wait_for_renewal(replica: Service, before: float, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while renewals(replica) == before:
        assert time.monotonic() < end, replica.program.last_words()
        time.sleep(0.2)
