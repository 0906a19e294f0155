"""Resolves the tags of base images to digests, with the container engine that builds on them."""

import json
import re
import shutil
import subprocess
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:-]*(?:@sha256:[0-9a-f]{64})?", re.ASCII)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_PULL_SECONDS: Final = 900


class ResolutionError(Exception):
    """A base image cannot be resolved. The message names the image and the reason."""


def resolve(engine: str, name: str, platform: str = "") -> str:
    """Return an image as ``NAME@sha256:DIGEST``. A tag is pulled first.

    Args:
        engine: A container engine with the commands of docker.
        name: Name of the image, with a tag or a digest.
        platform: Platform of the image, such as ``linux/arm64``. Empty: that of the engine.

    Raises:
        ResolutionError: The name is invalid, or the engine is missing, cannot pull the image, or reports no digest.
    """
    if not _NAME.fullmatch(name):
        raise ResolutionError(f"{name[:200]!r}: must be NAME:TAG or NAME@sha256:DIGEST")
    if "@" in name:
        return name
    if shutil.which(engine) is None:
        raise ResolutionError(
            f"{engine}: command not found. Set ENGINE to your container engine, or to none to build without one"
        )
    _run(engine, name, "pull", "--quiet", *([f"--platform={platform}"] if platform else []), name)
    listed = _run(engine, name, "image", "inspect", "--format", "{{json .RepoDigests}}", name)
    try:
        digests = _DIGEST.findall(" ".join(json.loads(listed)))
    except (ValueError, TypeError):
        digests = []
    if not digests:
        raise ResolutionError(f"{name}: {engine} reports no digest, but {listed.strip()[:200]!r}")
    head, colon, tag = name.rpartition(":")
    return f"{head if colon and '/' not in tag else name}@{digests[0]}"


def _run(engine: str, name: str, *words: str) -> str:
    try:
        result = subprocess.run([engine, *words], capture_output=True, text=True, check=False, timeout=_PULL_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ResolutionError(f"{name}: {engine} {words[0]}: {error}") from error
    if result.returncode:
        reason = " ".join(result.stderr.split())[-400:] or f"exit code {result.returncode}"
        raise ResolutionError(
            f"{name}: {engine} {words[0]}: {reason}. Set BUILD and BASE to images that {engine} can pull, or "
            "build with ENGINE=none, which pulls no image"
        )
    return result.stdout
