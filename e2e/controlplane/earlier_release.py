"""The program as it was at an earlier commit, with the dependencies of then: what runs beside this one in an upgrade.

It is built from the repository's own history into an environment of its own in the user's cache directory, once per
commit and interpreter.
"""

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from e2e.controlplane.build import alone
from image.layers import cache

ROOT: Final = Path(__file__).parents[2]
COMMIT: Final = "ee4a03dbf2a1c624014ccafa0d8ca7c9221433f8"
"""The release that an upgrade to this one begins with."""
_SECONDS: Final = 600


class ReleaseError(Exception):
    """The release cannot be built; the text says why."""


def earlier_release(commit: str = COMMIT) -> Path:
    """Return the folder of its programs, such as ``harbormaster``; it is built when it is not there yet.

    Args:
        commit: Whole, of this repository.

    Raises:
        ReleaseError: The clone does not have the commit, or it cannot be built.
    """
    folder = cache() / "releases" / f"{commit[:12]}-{sys.implementation.cache_tag}"
    whole = folder / "whole"
    if not whole.exists():
        with alone(folder.parent):
            if not whole.exists():
                shutil.rmtree(folder, ignore_errors=True)  # of a build that was broken off
                _build(commit, folder)
                whole.touch()
    return folder / "bin"


def _build(commit: str, folder: Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(fileobj=io.BytesIO(_archive(commit))) as archive:
            archive.extractall(unpacked, filter="data")
        install = (uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", folder / "bin" / "python")
        _run(uv, "venv", "--quiet", "--no-project", "--python", sys.executable, folder)
        _run(*install, "--require-hashes", "-r", Path(unpacked, "requirements.txt"))
        _run(*install, "--no-deps", "--no-build-isolation", unpacked)


def _archive(commit: str) -> bytes:
    git = ("git", "-C", str(ROOT), "archive", "--format=tar", commit)
    done = subprocess.run(git, capture_output=True, check=False, timeout=_SECONDS)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise ReleaseError(
            f"commit {commit}, the release before this one, is not in this clone of the repository ({said}); "
            "get all of the history: git fetch --unshallow"
        )
    return done.stdout


def _run(*words: str | Path) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if done.returncode:
        raise ReleaseError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
