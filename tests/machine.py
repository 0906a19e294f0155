"""Parts of the suite that need something of the machine, and how to get it where it is missing.

A run lists the parts that cannot run before its first test, runs everything else, and fails with the same list: a skip
is not a pass.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from e2e.controlplane.build import OF_CORE, BuildError, built, toolchain
from webhook.telemetry.allocator import allocated

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True, slots=True)
class Part:
    """Tests that need the same thing of the machine.

    Args:
        name: For the list.
        tests: Beginnings of their node ids.
        remedy: Returns how to get what is missing, an empty text when nothing is.
    """

    name: str
    tests: tuple[str, ...]
    remedy: Callable[[], str]


def chromium_path() -> str | None:
    """Return the browser that ``CHROMIUM`` names, else the first one on the path; None: unavailable."""
    names = (os.environ.get("CHROMIUM") or "", *BROWSERS)
    return next((path for name in names if name and (path := shutil.which(name))), None)


def _browser() -> str:
    if chromium_path() is None:
        return "no Chromium on the path: apt-get install chromium, or name a browser in CHROMIUM"
    return "" if shutil.which("npm") else "no npm on the path, which fetches axe-core: apt-get install npm"


def _openssl() -> str:
    return "" if shutil.which("openssl") else "no openssl on the path: apt-get install openssl"


def _groff() -> str:
    return "" if shutil.which("groff") else "no groff on the path: apt-get install groff-base"


def _proc() -> str:
    if sys.platform != "linux":
        return (
            f"processes are found in /proc of Linux, this is {sys.platform}: run the tests in a Linux virtual machine"
        )
    return ""


def _glibc() -> str:
    if allocated() is not None:
        return ""
    return (
        "the C library is not glibc 2.33 or newer, which can return freed memory: run the tests on Debian 12 or newer"
    )


def _control_plane() -> str:
    if not all(map(built, OF_CORE)):
        try:
            toolchain()
        except BuildError as error:
            return f"no toolchain to build kube-apiserver with: install Go from https://go.dev/dl ({error})"
    return ""


def _pods() -> str:
    if sys.platform != "linux":
        return f"Pods run in namespaces of Linux, this is {sys.platform}: run the tests in a Linux virtual machine"
    if os.geteuid() != 0:
        return "Pods need the rights of root: sudo make e2e"
    lacking = [name for name in ("unshare", "nsenter", "setpriv", "ip") if shutil.which(name) is None]
    if lacking:
        return f"no {', '.join(lacking)} on the path: apt-get install util-linux iproute2"
    if subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True, check=False).returncode:
        return "the kernel refuses namespaces: run in a machine or a container with CAP_SYS_ADMIN"
    return ""


PARTS: Final = (
    Part("the page in a browser", ("tests/webhook/page/", "e2e/access/test_sign_in.py"), _browser),
    Part(
        "certificates verified by openssl",
        (
            "tests/certs/test_authority.py::test_the_chain_verifies_with_openssl",
            "tests/certs/test_rotation.py",
            "tests/webhook/server/test_certificates.py::test_openssl_verifies_the_running_server",
        ),
        _openssl,
    ),
    Part("manual pages formatted by groff", ("tests/docs/test_man.py::test_a_formatter_has_no_warnings",), _groff),
    Part(
        "memory returned by glibc",
        ("tests/webhook/telemetry/test_allocator.py::test_freed_memory_between_blocks_in_use_is_returned",),
        _glibc,
    ),
    Part("processes of an interrupted run", ("tests/test_reaper.py",), _proc),
    Part("a real kube-apiserver", ("e2e/",), _control_plane),
    Part(
        "Pods, images and mounts",
        (
            "e2e/packaging/test_image.py",
            "e2e/packaging/test_installation.py",
            "e2e/cli/test_kubectl_of_up.py::test_up_names_the_file_for_which_the_disk_has_no_space",
            "e2e/harness/test_kubelet.py",
        ),
        _pods,
    ),
)


def missing_parts() -> dict[Part, str]:
    """Return the parts that cannot run on this machine, with their remedies."""
    return {part: remedy for part in PARTS if (remedy := part.remedy())}
