"""The volumes of a Pod as folders: written whole, with owners and modes, and written anew when their sources change.

What comes from the API server is laid out as the kubelet does it: the files are links through ``..data`` to a folder of
one moment, so that a reader who follows ``..data`` never sees half of an update.
"""

import os
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from e2e.controlplane.cluster import JsonObject
from e2e.kubelet.environment import ConfigurationError, Fields, Read, data_of

RENEW_AT = 0.8
"""A token is renewed after this share of its life."""
DEFAULT_MODE = 0o644
KINDS = ("emptyDir", "configMap", "secret", "projected", "downwardAPI")

RequestToken = Callable[[JsonObject], Awaitable[JsonObject]]
"""Asks for a token of the Pod's ServiceAccount by the ``spec`` of a TokenRequest; returns its ``status``."""


@dataclass(frozen=True)
class File:
    """One file of a volume."""

    content: bytes
    mode: int = DEFAULT_MODE


Files = dict[str, File]
"""By path inside the volume."""


@dataclass
class Token:
    """A token that a volume holds, and when (Unix time) it is renewed."""

    value: str
    renew_at: float


@dataclass
class Volume:
    """One volume of a Pod.

    Args:
        spec: As in the Pod.
        folder: Where it is; made by `fill`.
        user: Who all containers run as; -1 when they differ, or none says.
        group: ``fsGroup``; -1 without one.
    """

    spec: JsonObject
    folder: Path
    user: int = -1
    group: int = -1
    _tokens: dict[str, Token] = field(default_factory=dict)
    _files: Files | None = None

    async def fill(self, fields: Callable[[], Fields], read: Read, request_token: RequestToken) -> None:
        """Write what belongs there now; nothing when it is there already.

        Raises:
            ConfigurationError: A source is missing.
        """
        if "emptyDir" in self.spec:
            self._make_empty()
            return
        files = await self._read(fields(), read, request_token)
        if files != self._files:
            self._write(files)
            self._files = files

    def _make_empty(self) -> None:
        if not self.folder.exists():
            self.folder.mkdir(parents=True)
            self.folder.chmod(0o777 if self.group < 0 else 0o2777)
            os.chown(self.folder, -1, self.group)

    async def _read(self, fields: Fields, read: Read, request_token: RequestToken) -> Files:
        if "projected" not in self.spec:
            return await self._source(self.spec, _mode(self.spec), fields, read)
        found: Files = {}
        projected = self.spec["projected"]
        for source in projected.get("sources") or ():
            mode = projected.get("defaultMode", DEFAULT_MODE)
            if "serviceAccountToken" in source:
                owned = self.user >= 0 or self.group >= 0
                content = await self._token(source["serviceAccountToken"], request_token)
                found[source["serviceAccountToken"]["path"]] = File(content, 0o600 if owned else mode)
            else:
                found |= await self._source(source, mode, fields, read)
        return found

    async def _source(self, source: JsonObject, mode: int, fields: Fields, read: Read) -> Files:
        if "downwardAPI" in source:
            items = source["downwardAPI"].get("items") or ()
            return {item["path"]: File(_field(item, fields), item.get("mode", mode)) for item in items}
        plural, word = ("configmaps", "configMap") if "configMap" in source else ("secrets", "secret")
        chosen = source[word]
        name, optional = chosen.get("name") or chosen.get("secretName"), chosen.get("optional", False)
        data = await data_of(plural, name, read, optional=optional)
        if not chosen.get("items"):
            return {key: File(content, mode) for key, content in data.items()}
        missing = [item["key"] for item in chosen["items"] if item["key"] not in data]
        if missing and not optional:
            raise ConfigurationError(f"{plural} {name!r} has no key {missing[0]!r}")
        return {
            item["path"]: File(data[item["key"]], item.get("mode", mode))
            for item in chosen["items"]
            if item["key"] in data
        }

    async def _token(self, source: JsonObject, request_token: RequestToken) -> bytes:
        path, asked = source["path"], time.time()
        held = self._tokens.get(path)
        if held is None or asked >= held.renew_at:
            audience = source.get("audience")
            seconds = source.get("expirationSeconds", 3600)
            spec = {"audiences": [audience] if audience else [], "expirationSeconds": seconds}
            status = await request_token(spec)
            end = datetime.strptime(status["expirationTimestamp"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
            held = self._tokens[path] = Token(status["token"], asked + min(seconds, end - asked) * RENEW_AT)
        return held.value.encode()

    def _write(self, files: Files) -> None:
        """Put a folder of this moment beside the one before, and turn ``..data`` to it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        moment = self.folder / f"..{time.time_ns()}"
        moment.mkdir()
        for path, file in files.items():
            target = moment / path
            if not target.resolve().is_relative_to(moment.resolve()):
                raise ConfigurationError(f"path {path!r} leads out of the volume")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.content)
            target.chmod(file.mode if self.group < 0 else file.mode | 0o440)
            os.chown(target, self.user if file.mode == 0o600 else -1, self.group)
        data, passing = self.folder / "..data", self.folder / "..data_tmp"
        before = data.resolve() if data.exists() else None
        passing.symlink_to(moment.name)
        passing.replace(data)
        self._link({Path(path).parts[0] for path in files})
        if before is not None:
            shutil.rmtree(before)

    def _link(self, names: Iterable[str]) -> None:
        wanted = set(names)
        for there in self.folder.iterdir():
            if not there.name.startswith("..") and there.name not in wanted:
                there.unlink()
        for name in wanted:
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(Path("..data", name))


def volumes_of(pod: JsonObject, folder: Path) -> dict[str, Volume]:
    """The volumes of a Pod by name, below *folder*."""
    spec = pod["spec"]
    whole: Mapping[str, int] = spec.get("securityContext") or {}
    users = {
        (container.get("securityContext") or {}).get("runAsUser", whole.get("runAsUser", -1))
        for container in spec["containers"]
    }
    user = users.pop() if len(users) == 1 else -1
    return {
        volume["name"]: Volume(volume, folder / volume["name"], user, whole.get("fsGroup", -1))
        for volume in spec.get("volumes") or ()
    }


def _mode(spec: JsonObject) -> int:
    kind = next(kind for kind in KINDS if kind in spec)
    return int(spec[kind].get("defaultMode", DEFAULT_MODE))


def _field(item: JsonObject, fields: Fields) -> bytes:
    if "fieldRef" in item:
        return fields.value(item["fieldRef"]["fieldPath"]).encode()
    reference = item["resourceFieldRef"]
    container = next(each for each in fields.pod["spec"]["containers"] if each["name"] == reference["containerName"])
    return fields.resource(reference, container).encode()
