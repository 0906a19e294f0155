"""Files of Go modules, read out of the archive that the toolchain fetches: what others define is not copied here.

Go keeps the archive in its module cache, so that it is fetched once, and compares it with the public list of checksums.
"""

import json
import os
import subprocess
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.controlplane.build import BuildError, toolchain
from image.layers import cache


@dataclass(frozen=True)
class Module:
    """A module in the one version that the tests know, with the checksum of what is in it."""

    path: str
    version: str
    checksum: str


def read_files(module: Module, names: Sequence[str]) -> str:
    """Return files of a module, one after the other, as one text of YAML documents.

    Args:
        module: Which one.
        names: Paths below its top.

    Raises:
        BuildError: The module cannot be fetched, is not what it was, or has no such file.
    """
    archive = _archive(module)
    with zipfile.ZipFile(archive) as files:
        try:
            found = [files.read(f"{module.path}@{module.version}/{name}").decode() for name in names]
        except KeyError as error:
            raise BuildError(f"{module.path}@{module.version}: {error.args[0]}") from error
    return "\n---\n".join(found)


def _archive(module: Module) -> Path:
    """Have the module fetched; a toolchain that is too old to build it fetches it all the same."""
    named = f"{module.path}@{module.version}"
    folder = cache()
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [toolchain(), "mod", "download", "-json", named],
        cwd=folder,
        env=os.environ | {"GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=mod"},
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        said = json.loads(done.stdout)
    except ValueError:
        said = {}
    if not said.get("Zip"):
        raise BuildError(f"{named} cannot be fetched: {said.get('Error') or done.stderr.strip()}")
    if said.get("Sum") != module.checksum:
        raise BuildError(f"{named} is not what it was: its checksum is {said.get('Sum')}, not {module.checksum}")
    return Path(said["Zip"])
