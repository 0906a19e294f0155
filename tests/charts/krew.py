"""Writes the manifest of the kubectl plugin for krew: ``python -m tests.charts.krew VERSION HOST FOLDER``."""

import hashlib
import re
import string
import sys
from pathlib import Path

TEMPLATE = Path(__file__).parents[2] / "charts" / "krew" / "harbormaster.yaml.tmpl"
PLATFORMS = ("linux-amd64", "linux-arm64")
VERSION = re.compile(r"v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?", re.ASCII)


def manifest(version: str, host: str, archives: Path) -> str:
    """Return the manifest of a release.

    Args:
        version: Such as ``v0.1.0``.
        host: URL of the project, below which the archives are.
        archives: Folder with ``harbormaster-<platform>.tar.gz`` for each of `PLATFORMS`.

    Raises:
        ValueError: The version or the host is none.
        OSError: An archive is missing.
    """
    if not VERSION.fullmatch(version):
        raise ValueError(f"{version!r} is no version such as v0.1.0")
    if not host.startswith("https://"):
        raise ValueError(f"{host!r} is no https URL")
    sums = {
        f"SHA256_{platform.replace('-', '_').upper()}": hashlib.sha256(
            (archives / f"harbormaster-{platform}.tar.gz").read_bytes()
        ).hexdigest()
        for platform in PLATFORMS
    }
    return string.Template(TEMPLATE.read_text()).substitute(VERSION=version, HOST=host.rstrip("/"), **sums)


if __name__ == "__main__":
    try:
        sys.stdout.write(manifest(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
    except (IndexError, ValueError, OSError) as error:
        sys.exit(f"error: {error}" if not isinstance(error, IndexError) else "usage: VERSION HOST FOLDER")
