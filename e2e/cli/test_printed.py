"""What the program prints in a process of its own is what the tests of this folder install, and kubectl takes it."""

import subprocess

from e2e.controlplane.cluster import Cluster
from e2e.controlplane.printed import printed
from e2e.controlplane.service import HARBORMASTER
from scorer.api.kinds import OUR_KINDS


def test_kubectl_applies_the_definitions_as_the_program_prints_them(bare_hub: Cluster) -> None:
    """As its help says: ``harbormaster crds | kubectl apply --server-side -f -``."""
    text = subprocess.run([HARBORMASTER, "crds"], capture_output=True, text=True, check=True).stdout
    assert text == printed("crds")
    said = bare_hub.kubectl("apply", "--server-side", "-f", "-", given=text).stdout.splitlines()
    assert len(said) >= len({kind.plural for kind in OUR_KINDS})
    assert all(line.endswith("serverside-applied") for line in said)
