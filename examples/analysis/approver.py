"""Approve stages of staged update runs by a check of your own: any command that ends with 0 when all is well.

    python approver.py --server https://hub.example.com:6443 --token-file token --ca-file ca.crt -- ./smoke-test.sh

It needs nothing but Python. In a pod on the hub it finds server, token and authorities by itself, and approver.yaml has
the rights. Every few seconds it looks for approval requests that a run has made after a stage and waits for. For each
of them it runs the command, which finds the names of run and stage in RUN and STAGE. If the command ends with 0, the
request is approved as a person would approve it: by the condition Approved, for the present generation of the request.
Anything else means "not yet": there is no rejection, and the command is run again next time.
"""

import argparse
import json
import logging
import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")
API = "/apis/placement.kubernetes-fleet.io/v1beta1"
TASK_TYPE = "kubernetes-fleet.io/taskType"
REJECTED = "harbormaster.dev/rejected"

log = logging.getLogger("approver")


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
        namespace: Of namespaced runs; empty: cluster-scoped ones are looked at.
    """

    server: str
    token_file: Path
    ca_file: Path
    namespace: str = ""

    def path(self, plural: str, name: str = "") -> str:
        """Return where objects of a kind are; *plural* is that of the namespaced kind."""
        place = f"namespaces/{self.namespace}/{plural}" if self.namespace else f"cluster{plural}"
        return f"{API}/{place}/{name}".rstrip("/")

    def call(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Read what is at a path, or put *body* there."""
        request = urllib.request.Request(self.server.rstrip("/") + path, method="GET" if body is None else "PUT")
        request.add_header("Authorization", f"Bearer {self.token_file.read_text().strip()}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        trust = ssl.create_default_context(cafile=self.ca_file)
        opener = urllib.request.build_opener(NoRedirects, urllib.request.HTTPSHandler(context=trust))
        with opener.open(request, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


def condition(owner: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return a condition, empty when there is none of that type."""
    found: list[dict[str, Any]] = owner.get("conditions") or []
    return next((each for each in found if each.get("type") == kind), {})


def is_approved(request: dict[str, Any]) -> bool:
    """Say whether a request is approved; what was said about an earlier generation of it does not count."""
    approved = condition(request.get("status", {}), "Approved")
    current = approved.get("observedGeneration") == request["metadata"].get("generation")
    return approved.get("status") == "True" and current


def waits_for(run: dict[str, Any], request: dict[str, Any]) -> bool:
    """Say whether a run has made this request, after its stage, waits for it now, and nobody has rejected it."""
    rejected = run["metadata"].get("annotations", {}).get(REJECTED, "").partition(":")[0]
    if run["spec"].get("state") == "Stop" or rejected == request["metadata"]["name"]:
        return False
    for stage in run.get("status", {}).get("stagesStatus") or []:
        if stage["stageName"] == request["spec"]["targetStage"]:
            tasks = stage.get("afterStageTaskStatus") or []
            made = [task for task in tasks if condition(task, "ApprovalRequestCreated").get("status") == "True"]
            names = [task.get("approvalRequestName") for task in made]
            waits = condition(stage, "Progressing").get("reason") == "StageUpdatingWaiting"
            return waits and request["metadata"]["name"] in names
    return False


def is_open(hub: Hub, request: dict[str, Any]) -> bool:
    """Say whether a run waits for a request after a stage."""
    after = request["metadata"].get("labels", {}).get(TASK_TYPE) == "afterStage"
    if not after or is_approved(request) or "deletionTimestamp" in request["metadata"]:
        return False
    return waits_for(hub.call(hub.path("stagedupdateruns", request["spec"]["parentStageRollout"])), request)


def passes(command: Sequence[str], request: dict[str, Any], seconds: float) -> bool:
    """Run the check for a request, and say whether all is well."""
    spec = request["spec"]
    environment = {**os.environ, "RUN": spec["parentStageRollout"], "STAGE": spec["targetStage"]}
    try:
        done = subprocess.run(command, env=environment, timeout=seconds, check=False)  # noqa: S603 - the operator's own
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("cannot check %s: %s", request["metadata"]["name"], error)
        return False
    log.info("the check of %s ends with %s", request["metadata"]["name"], done.returncode)
    return done.returncode == 0


def approve(hub: Hub, request: dict[str, Any], message: str) -> None:
    """Approve a request as it was read: if anybody has written to it since, the hub refuses this."""
    made = {
        "type": "Approved",
        "status": "True",
        "reason": "CheckPassed",
        "message": message,
        "observedGeneration": request["metadata"]["generation"],
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    status = request.get("status", {})
    others = [each for each in status.get("conditions") or [] if each["type"] != "Approved"]
    body = {**request, "status": {**status, "conditions": [*others, made]}}
    hub.call(hub.path("approvalrequests", request["metadata"]["name"]) + "/status", body)
    log.info("approved %s", request["metadata"]["name"])


def look(hub: Hub, command: Sequence[str], seconds: float) -> bool:
    """Check every open request once, and say whether all could be looked at; one that cannot keeps no other waiting."""
    well = True
    for request in hub.call(hub.path("approvalrequests")).get("items", []):
        try:  # the run is read again after the check: somebody may have stopped it meanwhile
            if is_open(hub, request) and passes(command, request, seconds) and is_open(hub, request):
                approve(hub, request, f"passed {Path(command[0]).name}")
        except (OSError, ValueError) as error:  # urllib's errors are OSErrors, also a conflict: somebody was faster
            log.warning("cannot look at %s: %s", request["metadata"]["name"], error)
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
    if not 0 < seconds <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0, at most 86400")
    return seconds


def main() -> int:
    """Look again and again; a hub that cannot be reached is tried again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    server = "https://kubernetes.default.svc"
    parser.add_argument("--server", type=address, default=server, help="address of the hub's API server")
    parser.add_argument("--token-file", type=Path, default=POD / "token", help="file of a bearer token")
    parser.add_argument("--ca-file", type=Path, default=POD / "ca.crt", help="file of the hub's authorities")
    parser.add_argument("--namespace", default="", help="look at the namespaced runs there, not at cluster-scoped ones")
    parser.add_argument("--every", type=length, default=15, metavar="SECONDS", help="how often to look (15)")
    parser.add_argument(
        "--timeout", type=length, default=60, metavar="SECONDS", help="how long the check may take (60)"
    )
    parser.add_argument("--once", action="store_true", help="look once, then end")
    parser.add_argument("command", nargs="+", help="the check")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    hub = Hub(given.server, given.token_file, given.ca_file, given.namespace)
    while True:
        try:
            well = look(hub, given.command, given.timeout)
        except (OSError, ValueError) as error:
            log.warning("cannot look: %s", error)
            well = False
        if given.once:
            return int(not well)
        time.sleep(given.every)


if __name__ == "__main__":
    sys.exit(main())
