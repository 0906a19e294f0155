"""The Python of this machine, which replaces the base images.

During a build, steps see the files of this machine's root file system and its Python. The image itself contains only
those that Python and the installed packages need: the interpreter, its standard library, shared libraries, certificates
and users.
"""

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from image.layers import LayerError

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PYTHON: Final = Path(sys.base_prefix).resolve() / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"
HIDDEN: Final = (Path("/tmp"), Path("/run"))  # noqa: S108 - empty in every step and container
NEEDED: Final = (
    "Building without a container engine requires root on Linux, and a kernel that allows root to create mount "
    "namespaces"
)

_ARCHITECTURES: Final[Mapping[int, str]] = {62: "amd64", 183: "arm64", 21: "ppc64le", 22: "s390x", 243: "riscv64"}
"""Architecture names as Go spells them, by ``e_machine`` of ELF."""
_LOADED: Final = ("libgcc_s.so.1", "libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2")
"""Libraries that glibc loads at run time."""
_CERTIFICATES: Final = (CERTIFICATES, "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem")
_NOT_NEEDED: Final = ("site-packages", "dist-packages", "test", "idlelib", "tkinter", "turtledemo", "ensurepip",
                      "lib2to3", "__pycache__")  # fmt: skip
_FOLDERS: Final[Mapping[str, int]] = {"dev": 0o755, "proc": 0o755, "run": 0o755, "sys": 0o755, "tmp": 0o1777}
_FILES: Final[Mapping[str, str]] = {
    "etc/passwd": "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n",
    "etc/group": "root:x:0:\nnonroot:x:65532:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}


class MachineError(Exception):
    """This machine cannot build the image. The message names the missing part."""


def check_machine() -> None:
    """Check that this machine can run the steps of a build.

    Raises:
        MachineError: It lacks a requirement. The message names it.
    """
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        raise MachineError(NEEDED)
    programs = [name for name in ("chroot", "ldd", "mount", "unshare") if shutil.which(name, path=PATH) is None]
    if programs:
        raise MachineError(f"building without a container engine requires {', '.join(programs)}, not found in {PATH}")
    if not PYTHON.is_file():
        raise MachineError(f"{PYTHON}: no such file. Run the build with a Python that is installed there")
    for module in ("pip", "venv"):
        if subprocess.run([PYTHON, "-I", "-m", module, "--help"], capture_output=True, check=False).returncode:
            raise MachineError(f"{PYTHON} has no module {module}. Install it (on Debian: python3-pip, python3-venv)")


def architecture() -> str:
    """Return the architecture of this machine's Python, as OCI images name it.

    Raises:
        MachineError: The architecture is unknown.
    """
    with PYTHON.open("rb") as file:
        head = file.read(20)
    number = int.from_bytes(head[18:20], "big" if head[5:6] == b"\x02" else "little")
    if head[:4] != b"\x7fELF" or number not in _ARCHITECTURES:
        raise MachineError(f"{PYTHON}: must be an ELF program for {', '.join(_ARCHITECTURES.values())}")
    return _ARCHITECTURES[number]


def hidden_folders(folders: Iterable[Path]) -> list[str]:
    """Return the folders that a step cannot see: they are on other file systems, or below `HIDDEN`."""
    root = Path("/").stat().st_dev
    return sorted(
        str(folder)
        for folder in set(folders)
        if folder.stat().st_dev != root or any(folder.is_relative_to(each) for each in HIDDEN)
    )


def closed_folders(folders: Iterable[Path]) -> list[str]:
    """Return the folders, and parents of them, that some users may not list or enter, the uppermost first.

    Folders that a step cannot see anyway are skipped, with their parents.
    """
    hidden = hidden_folders(folders)
    closed = {
        str(parent)
        for folder in folders
        if str(folder) not in hidden
        for parent in (folder, *folder.parents)
        if parent.stat().st_mode & 0o005 != 0o005
    }
    return sorted(closed, key=len)


class Runtime:
    """The files of this machine that the image needs.

    Args:
        layers: Layers of the image that need them.

    Raises:
        MachineError: Certificates or a shared library are missing.
    """

    def __init__(self, layers: Sequence[Path]) -> None:
        self._library = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix})).resolve()
        self._modules = [*_standard_library(self._library)]
        binaries = [path for path in (PYTHON, *self._modules) if _is_elf(path)]
        binaries += [path for layer in layers for path in sorted(layer.rglob("*")) if _is_elf(path)]
        self._libraries = _libraries_of(binaries, layers)
        self._certificates = next((Path(each) for each in _CERTIFICATES if Path(each).is_file()), None)
        if self._certificates is None:
            raise MachineError("certificate authorities not found. Install them (on Debian: ca-certificates)")

    def fingerprint(self) -> str:
        """Return a digest of the files' paths, sizes and modification times."""
        digest = hashlib.sha256()
        for path in (PYTHON, *self._modules, *self._libraries, *filter(None, [self._certificates])):
            about = path.stat()
            digest.update(f"{path}\0{about.st_size}\0{about.st_mtime_ns}\n".encode())
        return digest.hexdigest()

    def write(self, layer: Path) -> None:
        """Copy the files into a layer, which then is a complete root file system."""
        assert self._certificates is not None
        for name, mode in _FOLDERS.items():
            (layer / name).mkdir()
            (layer / name).chmod(mode)
        for path in (PYTHON, *self._modules, *self._libraries):
            copy_with_links(path, layer)
        for name, text in _FILES.items():
            _file_in(layer, name).write_text(text, encoding="utf-8")
        shutil.copyfile(self._certificates, _file_in(layer, CERTIFICATES.lstrip("/")))
        for name in ("/etc/os-release", "/etc/ld.so.conf"):
            if Path(name).exists():
                shutil.copyfile(name, _file_in(layer, name.lstrip("/")))
        if Path("/etc/ld.so.conf.d").is_dir():
            shutil.copytree("/etc/ld.so.conf.d", layer / "etc/ld.so.conf.d")
        _run("ldconfig", "-r", str(layer))
        shutil.rmtree(layer / "var", ignore_errors=True)  # the cache of ldconfig, which contains times
        library = str(self._library)
        words = ("-I", "-m", "compileall", "-q", "-s", str(layer), "-p", "/", "--invalidation-mode", "unchecked-hash")
        _run(str(PYTHON), *words, f"{layer}{library}")
        _open(layer)


def copy_with_links(path: Path, layer: Path) -> None:
    """Copy a file of this machine to the same path in a layer, with all symbolic links that lead to it."""
    parts, real = deque(path.parts[1:]), Path("/")
    while parts:
        real /= parts.popleft()
        copy = layer / real.relative_to("/")
        if real.is_symlink():
            target = real.readlink()
            if not copy.is_symlink():
                copy.symlink_to(target)
            parts = deque([*Path(os.path.normpath(real.parent / target)).parts[1:], *parts])
            real = Path("/")
        elif real.is_dir():
            copy.mkdir(exist_ok=True)
        elif not copy.exists():
            shutil.copyfile(real, copy)
            copy.chmod(stat.S_IMODE(real.stat().st_mode))


def _standard_library(library: Path) -> Iterator[Path]:
    for folder, names, files in os.walk(library):
        names[:] = sorted(name for name in names if name not in _NOT_NEEDED and not name.startswith("config-"))
        yield from (Path(folder, name) for name in sorted(files) if not name.startswith("_tkinter."))


def _is_elf(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _libraries_of(binaries: Sequence[Path], layers: Sequence[Path]) -> list[Path]:
    """Return the shared libraries of this machine that binaries need, as the loader finds them.

    Raises:
        MachineError: One is missing.
    """
    needed: set[Path] = set()
    for line in _run("ldd", *map(str, binaries)).splitlines():
        if "not found" in line:
            raise MachineError(f"a shared library is missing: {line.strip()}")
        path = next((Path(word) for word in line.split() if word.startswith("/") and not word.endswith(":")), None)
        if path is not None and not any(path.is_relative_to(layer) for layer in layers):
            needed.add(path)
    folders = {path.parent for path in needed if path.name.startswith("libc.")}
    needed |= {path for folder in folders for name in _LOADED if (path := folder / name).exists()}
    return sorted(needed)


def _file_in(layer: Path, name: str) -> Path:
    path = layer / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _open(layer: Path) -> None:
    """Let every user read all files and enter all folders. Raise `LayerError` for a file of another type."""
    for path in layer.rglob("*"):
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode) and path.parent != layer:
            path.chmod(0o755)
        elif stat.S_ISREG(mode):
            path.chmod(0o755 if mode & 0o100 else 0o644)
        elif not stat.S_ISLNK(mode) and not stat.S_ISDIR(mode):
            raise LayerError(f"{path}: must be a file, a folder or a symbolic link")


def _run(*words: str) -> str:
    result = subprocess.run(words, capture_output=True, text=True, check=False, env={"PATH": PATH, "LC_ALL": "C"})
    if result.returncode and words[0] != "ldd":  # ldd fails if one of the files is static
        raise MachineError(f"{words[0]}: exit code {result.returncode}: {result.stderr.strip()[:400]}")
    return result.stdout
