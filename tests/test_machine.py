"""A run on a machine that lacks something lists that first, runs the rest, and fails with the list."""

import os
import re
import subprocess
import sys

import pytest

from e2e.controlplane.build import BuildError
from tests.docs.pages import ROOT
from tests.machine import PARTS, chromium_path, missing_parts

OPENSSL = "no openssl on the path: apt-get install openssl"


@pytest.fixture
def bare_path(tmp_path, monkeypatch):
    """Nothing is installed."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHROMIUM", raising=False)
    return tmp_path


def test_parts_that_cannot_run_are_skipped_listed_and_fail_the_run(bare_path):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/certs", "tests/test_turns.py"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(bare_path), "GOROOT": str(bare_path)}
    done = subprocess.run(
        [*command, "-k", "openssl or named_twice"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    before = lines[: next(at for at, line in enumerate(lines) if line.startswith("collect"))]
    assert f"cannot run: certificates verified by openssl: {OPENSSL}" in before
    assert f"NOT RUN: 1 tests: {OPENSSL}" in lines
    assert "1 passed, 1 skipped" in lines[-1]
    assert done.returncode == pytest.ExitCode.TESTS_FAILED


def test_every_remedy_names_what_is_missing_and_how_to_get_it(bare_path, monkeypatch):
    def offline():
        raise BuildError("offline")

    monkeypatch.setattr("tests.machine.built", lambda name: False)
    monkeypatch.setattr("tests.machine.toolchain", offline)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    remedies = {part.name: remedy for part, remedy in missing_parts().items()}
    assert remedies == {
        "the page in a browser": "no Chromium on the path: apt-get install chromium, or name a browser in CHROMIUM",
        "certificates verified by openssl": OPENSSL,
        "manual pages formatted by groff": "no groff on the path: apt-get install groff-base",
        "a real kube-apiserver": (
            "no toolchain to build kube-apiserver with: install Go from https://go.dev/dl (offline)"
        ),
        "Pods, images and mounts": "no unshare, nsenter, setpriv, ip on the path: apt-get install util-linux iproute2",
    }
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "Pods need the rights of root: sudo make e2e" in missing_parts().values()
    monkeypatch.setattr("sys.platform", "darwin")
    assert any("this is darwin" in remedy for remedy in missing_parts().values())


def test_a_browser_may_be_named(bare_path, monkeypatch):
    assert chromium_path() is None
    browser = bare_path / "mine"
    browser.write_text("#!/bin/sh\n")
    browser.chmod(0o755)
    monkeypatch.setenv("CHROMIUM", str(browser))
    assert chromium_path() == str(browser)


def test_every_test_that_a_part_names_is_there():
    for name in (each for part in PARTS for each in part.tests):
        file, _, test = name.partition("::")
        assert (ROOT / file).exists(), name
        assert not test or f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), name


def test_no_test_is_skipped_because_of_the_machine_without_a_part():
    skips = re.compile(r"mark\.skipif\((?!not SOAK)")
    files = [file for folder in ("tests", "e2e") for file in (ROOT / folder).rglob("test_*.py")]
    assert [file.name for file in files if skips.search(file.read_text(encoding="utf-8"))] == []
