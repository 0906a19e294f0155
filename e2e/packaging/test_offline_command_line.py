"""The command line is installed on a machine without access to a package index, as ``docs/install.md`` says."""

import os
import subprocess
import sys
from pathlib import Path

from e2e.kubelet.network import own_network
from tests.docs.pages import ROOT
from tests.docs.shown import WITHOUT_THE_INTERNET, commands_of

PROGRAMS = Path(sys.executable).parent


def type_in(text: str, folder: Path, **variables: str) -> str:
    """Return what a command prints in a folder, without the settings of the tests."""
    environment = {"PATH": f"{PROGRAMS}:{os.defpath}", "HOME": str(folder), **variables}
    done = subprocess.run(["sh", "-ec", text], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{text}: {done.stdout}{done.stderr}"
    return done.stdout


def test_the_command_line_is_installed_from_the_downloaded_files_alone(tmp_path):
    """Another test runs the first command, which builds the archive of the image."""
    _, download, *rest = (command.text for command in commands_of(WITHOUT_THE_INTERNET) if not command.reason)
    (tmp_path / "requirements.txt").symlink_to(ROOT / "requirements.txt")
    subprocess.run(
        [PROGRAMS / "hatchling", "build", "--target", "wheel", "--directory", tmp_path / "dist"], cwd=ROOT, check=True
    )
    index = {name: text for name, text in os.environ.items() if name.startswith("PIP_") or name.endswith("_proxy")}
    type_in(download, tmp_path, **index)
    with own_network():
        printed = type_in("\n".join([*rest, "command -v harbormaster", "harbormaster --version"]), tmp_path)
    program, version = printed.splitlines()[-2:]
    assert (program, version) == (str(tmp_path / "environment" / "bin" / "harbormaster"), "harbormaster 0.1.0")
