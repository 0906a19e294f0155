"""The images that the charts name: that of the Dockerfile, in two versions of the project, and kube-scheduler."""

import re
from collections.abc import Mapping
from pathlib import Path

from e2e.kubelet.images import PROJECT, Image, image_of
from image.build import build
from image.machine import PATH, closed_folders, hidden_folders

_PYPROJECT = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
_VERSION = re.compile(r'^version = "(\d+)\.(\d+)\.(\d+)"$', re.MULTILINE)
_FOUND = _VERSION.search(_PYPROJECT)
assert _FOUND is not None
_MAJOR, _MINOR, _PATCH = map(int, _FOUND.groups())
THIS = f"{_MAJOR}.{_MINOR}.{_PATCH}"
NEXT = f"{_MAJOR}.{_MINOR}.{_PATCH + 1}"
"""The same code with another version written on it."""
REGISTRY = "registry.example.com"
"""Stands for the registry of a reader of the documents."""
SCHEDULER = "kube-scheduler:tests"


def installed_images(programs: Mapping[str, Path]) -> dict[str, Image]:
    """All of them by name; what is not in the cache is built, which takes the network of this machine.

    Args:
        programs: Of the control plane.

    Raises:
        BuildError: This machine cannot build them.
    """
    own = image_of(build(PROJECT))
    following = _VERSION.sub(f'version = "{NEXT}"', _PYPROJECT, count=1)
    folder = programs["kube-scheduler"].parent
    return {
        f"harbormaster:{THIS}": own,
        f"{REGISTRY}/harbormaster:{THIS}": own,
        f"harbormaster:{NEXT}": image_of(build(PROJECT, replaced={"pyproject.toml": following})),
        SCHEDULER: Image(
            environment={"PATH": f"{folder}:{PATH}"},
            user=65532,
            shown=hidden_folders([folder]),
            opened=closed_folders([folder]),
        ),
    }
