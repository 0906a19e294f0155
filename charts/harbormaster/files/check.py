"""What ``helm test`` runs: admission allows a valid placement and refuses an invalid one, and the server is ready.

Nothing is written: both placements are dry runs. Only the standard library is used.
"""

import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path

ADVICE = "for details and suggested fixes, run: harbormaster doctor --context HUB"
SECONDS = 10
PATH = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements?dryRun=All"


def placement(namespace: str) -> bytes:
    """Return a placement of a namespace."""
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": namespace}
    return json.dumps(
        {
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ClusterResourcePlacement",
            "metadata": {"generateName": "harbormaster-test-"},
            "spec": {"resourceSelectors": [selector], "policy": {"placementType": "PickAll"}},
        }
    ).encode()


def create(body: bytes, account: Path) -> tuple[int, str]:
    """Create a placement as a dry run; return the code and the message of the answer."""
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    address = f"[{host}]" if ":" in host else host
    token = (account / "token").read_text(encoding="ascii")
    request = urllib.request.Request(
        f"https://{address}:{os.environ['KUBERNETES_SERVICE_PORT']}{PATH}",
        body,
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    trust = ssl.create_default_context(cafile=str(account / "ca.crt"))
    try:
        with urllib.request.urlopen(request, timeout=SECONDS, context=trust) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")


def trouble(readiness: str, account: Path, hook: str) -> str:
    """Return what is wrong; empty: nothing."""
    try:
        with urllib.request.urlopen(readiness, timeout=SECONDS) as answer:
            sys.stdout.write(answer.read().decode())
    except urllib.error.HTTPError as error:
        return f"{readiness}: {error.code}: {error.read().decode(errors='replace')}"
    code, message = create(placement("harbormaster-test"), account)
    if code != 201:
        return f"a valid placement is refused: {code}: {message}"
    if not hook:
        return ""
    code, message = create(placement("kube-system"), account)
    if code == 201:
        return "a placement of kube-system is allowed: the API server does not call harbormaster"
    if hook not in message:
        return f"a placement of kube-system is refused, but not by {hook}: {code}: {message}"
    return ""


def main() -> int:
    """Check with the words of the command line: URL of the readiness, folder of the account, name of the hook."""
    found = trouble(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
    sys.stdout.write("".join(f"{line}\n" for line in ([found, ADVICE] if found else ["admission works"])))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
