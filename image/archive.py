"""Writes an image as one tar file, which is both an OCI image layout and an archive of ``docker save``.

The same layers and the same time give the same bytes: entries are sorted, and owners have numbers but no names.
"""

import hashlib
import io
import itertools
import json
import os
import re
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NoReturn

from image.layers import LayerError, is_opaque, is_removal

_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_REMOVED: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_DOMAIN: Final = (
    r"(?:[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?)*(?::[0-9]+)?/)?"
)
_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_NAME: Final = re.compile(rf"({_DOMAIN})({_PART}(?:/{_PART})*):([\w][-.\w]{{0,127}})", re.ASCII)

JsonObject = dict[str, object]


@dataclass(frozen=True)
class Contents:
    """An image.

    Args:
        layers: Folders, the uppermost first.
        architecture: Architecture, as OCI images name it.
        user: User and group of the program.
        folder: Working directory.
        entrypoint: The program and its first arguments.
        environment: Environment variables.
        labels: Labels of the image.
    """

    layers: Sequence[Path]
    architecture: str
    user: str = ""
    folder: str = "/"
    entrypoint: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


def full_name(name: str) -> str:
    """Return a name with its registry, as containerd stores it.

    Raises:
        ValueError: *name* is not ``REPOSITORY:TAG``.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name[:200]!r}: must be REPOSITORY:TAG")
    domain, path, tag = match.groups()
    host = domain.rstrip("/")
    if not host or not ("." in host or ":" in host or host == "localhost"):
        path = f"{domain}{path}"
        return f"docker.io/{path if '/' in path else f'library/{path}'}:{tag}"
    return name


def write_archive(path: Path, image: Contents, name: str, *, time: int) -> str:
    """Write an image, and return the digest of its manifest. An interrupted write leaves no file at *path*.

    Args:
        path: The archive. An existing one is replaced.
        image: The image.
        name: Its name, as ``REPOSITORY:TAG``.
        time: Seconds since 1970 that replace the times of all files.

    Raises:
        ValueError: *name* is no name of an image.
        LayerError: A file cannot be part of an image.
        OSError: The archive could not be written.
    """
    containerd_name = full_name(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as scratch:
        blobs = _Blobs(Path(scratch))
        layers = [blobs.add_layer(layer, time) for layer in reversed(image.layers) if any(layer.iterdir())]
        config = blobs.add_json(_CONFIG, _config(image, [str(layer["digest"]) for layer in layers], time))
        manifest = blobs.add_json(
            _MANIFEST, {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": layers}
        )
        names = {
            "io.containerd.image.name": containerd_name,
            "org.opencontainers.image.ref.name": name.rpartition(":")[2],
        }
        entry = {**manifest, "platform": _platform(image), "annotations": names}
        docker = {
            "Config": _blob(config),
            "RepoTags": [name],
            "Layers": [_blob(layer) for layer in layers],
        }
        finished = Path(scratch) / "archive"
        with finished.open("wb") as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}), time)
            _add(tar, "index.json", _json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [entry]}), time)
            _add(tar, "manifest.json", _json([docker]), time)
            for digest, blob in sorted(blobs.files.items()):
                info = _info(f"blobs/sha256/{digest}", tarfile.REGTYPE, 0o644, time)
                info.size = blob.stat().st_size
                with blob.open("rb") as content:
                    tar.addfile(info, content)
        finished.chmod(0o644)
        finished.replace(path)
    return str(manifest["digest"])


class _Blobs:
    """Blobs by digest.

    Args:
        folder: Folder for their files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        self.files: dict[str, Path] = {}

    def add_json(self, media_type: str, document: JsonObject) -> JsonObject:
        """Add a document, and return its descriptor."""
        file = self._new_file()
        file.write_bytes(_json(document))
        return self._descriptor(media_type, file)

    def add_layer(self, layer: Path, time: int) -> JsonObject:
        """Add a layer, and return its descriptor."""
        file = self._new_file()
        with tarfile.open(file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path, name in _entries(layer):
                _add_entry(tar, path, name, time)
        return self._descriptor(_LAYER, file)

    def _new_file(self) -> Path:
        """Return an unused path. Not numbered by the size of *files*, where equal layers share one entry."""
        return self._folder / f"blob-{next(self._numbers)}"

    def _descriptor(self, media_type: str, file: Path) -> JsonObject:
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        self.files[digest] = file
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": file.stat().st_size}


def _config(image: Contents, layers: Sequence[str], time: int) -> JsonObject:
    config = {
        "User": image.user,
        "Env": [f"{name}={value}" for name, value in image.environment.items()],
        "Entrypoint": list(image.entrypoint),
        "WorkingDir": image.folder,
        "Labels": dict(image.labels),
    }
    created = datetime.fromtimestamp(time, UTC).isoformat().replace("+00:00", "Z")
    rootfs = {"type": "layers", "diff_ids": list(layers)}
    return {"created": created, **_platform(image), "config": config, "rootfs": rootfs}


def _platform(image: Contents) -> JsonObject:
    return {"architecture": image.architecture, "os": "linux"}


def _entries(layer: Path) -> Iterator[tuple[Path, str]]:
    """Yield paths and names of a layer in order. Symbolic links are never followed. Raises `OSError`."""

    def fail(error: OSError) -> NoReturn:
        raise error

    for folder, names, files in os.walk(layer, onerror=fail, followlinks=False):
        names.sort()
        for name in sorted([*names, *files]):
            path = Path(folder, name)
            yield path, str(path.relative_to(layer))


def _add_entry(tar: tarfile.TarFile, path: Path, name: str, time: int) -> None:
    about, (folder, _, last) = path.lstat(), name.rpartition("/")
    if last.startswith(_REMOVED):
        raise LayerError(f"{name}: names that begin with {_REMOVED} mark removed files")
    mode = stat.S_IMODE(about.st_mode)
    info = _info(name, tarfile.REGTYPE, mode, time)
    info.uid, info.gid = about.st_uid, about.st_gid
    if is_removal(about):
        _add(tar, f"{folder}/{_REMOVED}{last}".lstrip("/"), b"", time)
    elif stat.S_ISDIR(about.st_mode):
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
        if is_opaque(path):
            _add(tar, f"{name}/{_OPAQUE}", b"", time)
    elif stat.S_ISLNK(about.st_mode):
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
        tar.addfile(info)
    elif stat.S_ISREG(about.st_mode):
        info.size = about.st_size
        with path.open("rb") as content:
            tar.addfile(info, content)
    else:
        raise LayerError(f"{name}: must be a file, a folder or a symbolic link")


def _add(tar: tarfile.TarFile, name: str, content: bytes, time: int) -> None:
    info = _info(name, tarfile.REGTYPE, 0o644, time)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def _info(name: str, kind: bytes, mode: int, time: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.mtime = kind, mode, time
    return info


def _blob(descriptor: JsonObject) -> str:
    return f"blobs/{str(descriptor['digest']).replace(':', '/')}"


def _json(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
