"""Upgrade clusters by a command of your own: any that ends with 0 when the cluster runs what it is to run.

    python upgrader.py --server https://hub.example.com:6443 --token-file token --ca-file ca.crt -- sh upgrade.sh

It needs nothing but Python. In a pod on the hub it finds server, token and authorities by itself, and upgrader.yaml has
the rights. Every few seconds it looks for the ClusterUpgradeRequests that upgrade runs have made for the back end
``handoff``. For each of them it runs the command, which finds what is wanted in MEMBER, TYPE (Full, ControlPlaneOnly or
NodeImageOnly), VERSION, IMAGES (``family=version``, comma separated) and OPERATION; and it reports in the status of the
request, as upgraders do: Accepted, InProgress with a heartbeat, then Succeeded, Failed or Cancelled.

What the cluster runs afterwards, the command may print as JSON in its last line: ``{"controlPlaneVersion": "1.31.2",
"pools": [{"name": "default", "kubernetesVersion": "1.31.2", "nodes": 3}]}``. Else it is taken to be what was wanted.
What it writes to standard error is logged, and the last line of it reported: as the progress, and when it fails as why.
A command may be started twice for one OPERATION, when this program was ended in between: let it go on then.
"""

import argparse
import json
import logging
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")
REQUESTS = "/apis/upgrade.harbormaster.dev/v1alpha1/clusterupgraderequests"
OURS = "harbormaster.dev%2Fupgrader%3Dhandoff"
ENDED = ("Succeeded", "Failed", "Cancelled")
LONGEST_MESSAGE = 500
INTERRUPTED = 130
HEARTBEAT_SECONDS = 60.0
LISTEN_SECONDS = 5.0
"""How long to read on after a command has ended: something that it has started may keep its standard error open."""

log = logging.getLogger("upgrader")


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows nobody elsewhere: the token would go there, too."""

    def redirect_request(self, *_: Any) -> None:
        """Make no further request."""


@dataclass(frozen=True)
class Hub:
    """The API server of the hub.

    Args:
        server: Its address.
        token_file: Read at every request, because tokens in pods are renewed.
        ca_file: The authorities of its certificate.
    """

    server: str
    token_file: Path
    ca_file: Path

    def call(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Read what is at a path, or merge *body* into it."""
        request = urllib.request.Request(self.server.rstrip("/") + path, method="GET" if body is None else "PATCH")
        request.add_header("Authorization", f"Bearer {self.token_file.read_text().strip()}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/merge-patch+json")
        trust = ssl.create_default_context(cafile=self.ca_file)
        opener = urllib.request.build_opener(NoRedirects, urllib.request.HTTPSHandler(context=trust))
        with opener.open(request, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def report(self, request: dict[str, Any], **status: Any) -> None:
        """Report in the status of a request; what is not given stays."""
        said = {"observedGeneration": request["metadata"]["generation"], "heartbeatTime": now(), **status}
        self.call(f"{REQUESTS}/{request['metadata']['name']}/status", {"status": said})


@dataclass
class Work:
    """A command under way.

    Args:
        process: The command.
        output: What it prints.
        heard: When its progress was reported last.
        said: The last line that it has written to standard error.
        listening: Reads those lines.
    """

    process: "subprocess.Popen[bytes]"
    output: IO[bytes]
    heard: float = field(default_factory=time.monotonic)
    said: str = ""
    listening: threading.Thread | None = None

    def listen(self, member: str) -> None:
        """Log what the command writes to standard error, and keep the last line."""
        for raw in self.process.stderr or ():
            if line := raw.decode("utf-8", "replace").strip():
                log.info("%s: %s", member, line)
                self.said = line[:LONGEST_MESSAGE]


def now() -> str:
    """Return the time as the API server writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def begin(hub: Hub, request: dict[str, Any], command: Sequence[str]) -> Work:
    """Start the command for a request."""
    spec = request["spec"]
    images = ",".join(f"{each['family']}={each['version']}" for each in spec.get("nodeImages") or [])
    about = {
        "MEMBER": spec["memberName"],
        "TYPE": spec["upgradeType"],
        "VERSION": spec.get("kubernetesVersion", ""),
        "IMAGES": images,
        "OPERATION": spec["operationID"],
    }
    hub.report(request, phase="Accepted")
    output = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the command has ended
    log.info("upgrading %s to %s", about["MEMBER"], about["VERSION"] or about["IMAGES"])
    process = subprocess.Popen(  # noqa: S603 - the operator's own
        command, env={**os.environ, **about}, stdout=output, stderr=subprocess.PIPE
    )
    work = Work(process, output)
    work.listening = threading.Thread(target=work.listen, args=(about["MEMBER"],), daemon=True)
    work.listening.start()
    hub.report(request, phase="InProgress")
    return work


def result(request: dict[str, Any], work: Work) -> dict[str, Any]:
    """Return what to report of a command that has ended."""
    if work.listening is not None:
        work.listening.join(LISTEN_SECONDS)
    work.output.seek(0)
    lines = work.output.read().decode("utf-8", "replace").strip().splitlines()
    last = lines[-1] if lines else ""
    work.output.close()
    if work.process.returncode != 0:
        message = f"the command ends with {work.process.returncode}: {work.said or last}"[:LONGEST_MESSAGE]
        return {"phase": "Failed", "error": {"code": "CommandFailed", "message": message}}
    try:
        runs = json.loads(last)
        runs = {key: runs[key] for key in ("controlPlaneVersion", "pools") if key in runs}
    except (ValueError, TypeError):
        runs = {}
    version = request["spec"].get("kubernetesVersion")
    assumed = {"controlPlaneVersion": version} if version else {}
    return {"phase": "Succeeded", "progressPercent": 100, **assumed, **runs}


def follow(hub: Hub, request: dict[str, Any], works: dict[str, Work], command: Sequence[str]) -> None:
    """Take one request a step further."""
    operation, phase = request["spec"]["operationID"], request.get("status", {}).get("phase", "")
    if phase in ENDED:
        return
    work = works.get(operation)
    if work is None:
        if request["spec"].get("cancelRequested"):
            hub.report(request, phase="Cancelled", finishedTime=now())
            return
        works[operation] = begin(hub, request, command)
        return
    if work.process.poll() is None:
        if request["spec"].get("cancelRequested"):
            work.process.terminate()
        elif time.monotonic() - work.heard >= HEARTBEAT_SECONDS:
            hub.report(request, **({"message": work.said} if work.said else {}))
            work.heard = time.monotonic()
        return
    called_off = work.process.returncode != 0 and request["spec"].get("cancelRequested")
    said = {"phase": "Cancelled"} if called_off else result(request, work)
    hub.report(request, **said, finishedTime=now())
    del works[operation]
    log.info("%s: %s", request["spec"]["memberName"], said["phase"])


def look(hub: Hub, works: dict[str, Work], command: Sequence[str]) -> bool:
    """Take every request a step further, and say whether all went well; one that cannot keeps no other waiting."""
    well = True
    for request in hub.call(f"{REQUESTS}?labelSelector={OURS}").get("items", []):
        try:
            follow(hub, request, works, command)
        except (OSError, ValueError) as error:  # urllib's errors are OSErrors
            log.warning("%s: %s", request["metadata"]["name"], error)
            well = False
    return well


def address(text: str) -> str:
    """Read the address of a hub: without TLS, anybody on the way could read the token."""
    if not text.startswith("https://"):
        raise argparse.ArgumentTypeError(f"{text!r} does not begin with https://")
    return text


def length(text: str) -> float:
    """Read a number of seconds."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0, at most 3600")
    return seconds


def main() -> int:
    """Look again and again; a hub that cannot be reached is tried again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    server = "https://kubernetes.default.svc"
    parser.add_argument("--server", type=address, default=server, help="address of the hub's API server")
    parser.add_argument("--token-file", type=Path, default=POD / "token", help="file of a bearer token")
    parser.add_argument("--ca-file", type=Path, default=POD / "ca.crt", help="file of the hub's authorities")
    parser.add_argument("--every", type=length, default=10, metavar="SECONDS", help="how often to look (10)")
    parser.add_argument("command", nargs="+", help="upgrades a cluster")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    hub, works = Hub(given.server, given.token_file, given.ca_file), dict[str, Work]()
    try:
        while True:
            try:
                look(hub, works, given.command)
            except (OSError, ValueError) as error:
                log.warning("cannot look: %s", error)
            time.sleep(given.every)
    except KeyboardInterrupt:
        again = f"; when it is started again, it runs the command again for {', '.join(works)}" if works else ""
        log.info("ended%s", again)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
