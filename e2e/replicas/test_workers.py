"""``serve --workers``: several processes that callers, probes, Prometheus and operators take for one server.

Source: docs/specifications/serving.md 1.10, 1.14, 4.4, 6.1 and 6.4.
"""

import contextlib
import os
import signal
import socket
import subprocess
from collections import Counter
from pathlib import Path
from urllib.request import urlopen

import pytest
from cryptography import x509
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from e2e.conftest import StartService
from e2e.controlplane.cluster import LOOPBACK, Cluster
from e2e.controlplane.process import PATIENCE, Program, free_port
from e2e.controlplane.service import HARBORMASTER, Service
from e2e.controlplane.side_by_side import SideBySide
from e2e.fleet.waiting import wait_until
from e2e.placements import placement

WORKERS = ("1", "2")
CALLERS = 8
HOOK = "/validate/placement.kubernetes-fleet.io/clusterresourceplacements"
REVIEWS = "harbormaster_admission_requests_total"


@pytest.fixture(scope="module")
def shared_ports(bare_hub: Cluster, start_service: StartService) -> Service:
    """A server of two workers, which leads the loop as well."""
    bare_hub.request("POST", "/api/v1/namespaces", {"metadata": {"name": "workers"}})
    words = (f"--workers={len(WORKERS)}", "--reconcile", "--namespace=workers")
    return start_service(bare_hub, words=words, history_seconds=1, drain_seconds=5)


def workers_of(program: Program) -> list[int]:
    """The processes that a process has started."""
    try:
        return [*map(int, Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text(encoding="ascii").split())]
    except FileNotFoundError:
        return []


def samples(service: Service, name: str) -> list[Sample]:
    """All samples of a metric, by one scrape."""
    with urlopen(f"http://{LOOPBACK}:{service.http_port}/metrics", timeout=PATIENCE) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return [each for family in families for each in family.samples if each.name == name]


def by_worker(service: Service, name: str) -> dict[str, float]:
    """The sum of a metric in each worker."""
    found: Counter[str] = Counter()
    for each in samples(service, name):
        found[each.labels["worker"]] += each.value
    return dict(found)


class Callers(SideBySide):
    """Call the hook of a server until the block ends, each over a new connection for every review.

    Attributes:
        allowed: How many reviews were answered as they should be.
        lost: Why others were not.
    """

    def __init__(self, service: Service) -> None:
        super().__init__(CALLERS)
        self._service = service
        self.allowed = 0
        self.lost: list[str] = []

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            try:
                answer = ask(self._service)
            except OSError as error:
                self.lost.append(str(error))
                continue
            assert answer, "refused"
            self.allowed += 1


def ask(service: Service, **spec: object) -> bool:
    """Send one review; whether it is allowed."""
    document = placement("workers")
    document["spec"] |= spec
    request = {"uid": "a", "operation": "CREATE", "name": "workers", "object": document, "userInfo": {"username": "u"}}
    group, version = document["apiVersion"].split("/")
    request |= {
        "kind": {"group": group, "version": version, "kind": document["kind"]},
        "resource": {"group": group, "version": version, "resource": "clusterresourceplacements"},
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer = service.ask("POST", service.hook(HOOK), review)
    return answer.status == 200 and bool(answer.document["response"]["allowed"])


def has_ended(process: int) -> bool:
    """Whether a process is gone, whoever would have to take note of it."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return True
    return "State:\tZ" in status


def test_one_scrape_shows_all_workers_and_no_other_shows_less(shared_ports):
    """Reviews are counted by whoever answers them: the sum is what was asked, whichever worker is scraped."""
    before = by_worker(shared_ports, REVIEWS)
    assert set(before) == set(WORKERS)
    for _ in range(40):
        assert ask(shared_ports)
    scrapes = [by_worker(shared_ports, REVIEWS) for _ in range(10)]
    assert scrapes == [scrapes[0]] * 10
    assert sum(scrapes[0].values()) == sum(before.values()) + 40
    assert by_worker(shared_ports, "harbormaster_worker_up") == dict.fromkeys(WORKERS, 1.0)
    assert by_worker(shared_ports, "harbormaster_build_info") == dict.fromkeys(WORKERS, 1.0)
    assert set(by_worker(shared_ports, "process_resident_memory_bytes")) == set(WORKERS)


def test_connections_go_to_all_workers(shared_ports):
    with Callers(shared_ports) as callers:
        before = by_worker(shared_ports, REVIEWS)
        wait_until("it is busy", lambda: "" if callers.allowed > 200 else f"{callers.allowed} reviews")
        after = by_worker(shared_ports, REVIEWS)
    assert callers.lost == []
    answered = [after[worker] - before[worker] for worker in WORKERS]
    assert min(answered) > sum(answered) / 10


def test_the_loop_runs_once(shared_ports):
    """A second candidate in the same server would only wait."""
    wait_until("it leads", lambda: "" if sum(by_worker(shared_ports, "harbormaster_leader").values()) else "it waits")
    assert set(by_worker(shared_ports, "harbormaster_leader")) == {"1"}


def test_each_worker_keeps_a_record_of_what_it_has_refused(shared_ports, bare_hub):
    """They begin theirs in the same second, on one machine."""

    def writers() -> set[str]:
        maps, _ = bare_hub.request("GET", "/api/v1/namespaces/workers/configmaps")
        return {each["data"]["instance"] for each in maps["items"] if "instance" in each.get("data", {})}

    def all_write() -> str:
        for _ in range(8):
            assert not ask(shared_ports, policy={"placementType": "PickN"})
        found = writers()
        return "" if {f"{socket.gethostname()}-{worker}" for worker in WORKERS} <= found else f"only {found}"

    wait_until("both write", all_write)
    assert "history write failed" not in shared_ports.program.log.read_text(encoding="utf-8")


def test_a_new_certificate_reaches_all_workers(shared_ports):
    shared_ports.replace_certificate()
    leaf = x509.load_pem_x509_certificate((shared_ports.folder / "tls.crt").read_bytes())
    end = leaf.not_valid_after_utc.timestamp()

    def found() -> dict[str, float]:
        shown = samples(shared_ports, "harbormaster_certificate_expiration_timestamp_seconds")
        return {each.labels["worker"]: each.value for each in shown if each.labels["role"] == "leaf"}

    expected = dict.fromkeys(WORKERS, end)
    wait_until("all show it", lambda: "" if found() == expected else f"{found()} rather than {expected}")
    for _ in range(20):  # which trust the new authority alone
        assert ask(shared_ports)


def test_a_worker_that_is_killed_loses_what_it_had_in_hand_and_is_started_again(shared_ports):
    killed = workers_of(shared_ports.program)[-1]
    with Callers(shared_ports) as callers:
        wait_until("it is busy", lambda: "" if callers.allowed > 50 else "not yet")
        os.kill(killed, signal.SIGKILL)
        wait_until("it is missed", lambda: "" if "does not respond" in shared_ports.checks() else "it is ready")
        assert not shared_ports.ready()
        assert 0.0 in by_worker(shared_ports, "harbormaster_worker_up").values()
        allowed = callers.allowed
        wait_until("the other goes on", lambda: "" if callers.allowed > allowed + 50 else "not yet")
        wait_until("it is back", lambda: "" if shared_ports.ready() else shared_ports.checks())
    assert len(callers.lost) <= CALLERS
    assert len(workers_of(shared_ports.program)) == len(WORKERS)
    assert sorted(by_worker(shared_ports, "harbormaster_worker_restarts_total").values()) == [0.0, 1.0]
    words = shared_ports.program.last_words()
    assert "was terminated by signal 9, SIGKILL" in words
    assert '"pauseSeconds": 1.0' in words


def test_a_server_that_is_asked_to_end_has_all_workers_finish(shared_ports):
    workers = workers_of(shared_ports.program)
    with Callers(shared_ports) as callers:
        wait_until("it is busy", lambda: "" if callers.allowed > 50 else "not yet")
        shared_ports.program.send(signal.SIGTERM)
        wait_until("it says so", lambda: "" if not shared_ports.ready() else "it is ready")
        callers._stop.set()  # as an API server does which has heard of it
    assert callers.lost == []
    assert shared_ports.program.stop(PATIENCE) == 0
    assert all(map(has_ended, workers))
    shared_ports.start()


def test_no_worker_outlives_a_server_that_is_killed(shared_ports):
    workers = workers_of(shared_ports.program)
    assert len(workers) == len(WORKERS)
    shared_ports.program.stop(number=signal.SIGKILL)
    wait_until("they end", lambda: "" if all(map(has_ended, workers)) else f"{workers} are there")
    for port in (shared_ports.port, shared_ports.http_port):
        with contextlib.closing(socket.socket()) as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind((LOOPBACK, port))
            again.listen()
    shared_ports.start()


def test_what_no_worker_can_start_with_is_said_once(bare_hub, tmp_path):
    words = [f"--kubeconfig={bare_hub.kubeconfig}", f"--https-port={free_port()}", "--http-port=0", "--workers=2"]
    done = subprocess.run(
        [HARBORMASTER, "serve", *words], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    assert "serve requires a certificate" in lines[0]
