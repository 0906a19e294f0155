"""Memory row: what `up` with the example fleet holds when everything has settled."""

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import yaml

from tests.bench.figures import Figure, Part
from tests.bench.processes import resident_megabytes

EXAMPLES = Path(__file__).parents[2] / "examples" / "fleet"
GOAL_MEGABYTES, PATIENCE_SECONDS, REST_SECONDS = 120, 120, 3


def main() -> None:
    """Start `up` as users do, wait for its fleet, read what the kernel counts."""
    with tempfile.TemporaryDirectory() as folder:
        ports = ["--https-port", "0", "--http-port", "0"]
        command = [sys.executable, "-m", "webhook.cli", "up", "--data", folder, "-f", str(EXAMPLES), *ports]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                _wait(Path(folder) / "kubeconfig")
                time.sleep(REST_SECONDS)
                resident = resident_megabytes(process.pid)
            finally:
                process.terminate()
    Part("memory").report(Figure("up with the example fleet, idle", resident, "MB", GOAL_MEGABYTES))


def _wait(kubeconfig: Path) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        time.sleep(0.5)
        if not kubeconfig.exists():
            continue
        cluster = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
        address = cluster["extensions"][0]["extension"]["page"]
        with urllib.request.urlopen(f"{address}/v1/placements") as answer:
            items = json.load(answer)["items"]
        if len(items) > 10 and all(item["state"] not in ("pending", "rolling out") for item in items):
            return
    raise SystemExit("the example fleet did not settle")


if __name__ == "__main__":
    main()
