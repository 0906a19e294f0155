"""`make image`: its base images get digests, and what it cannot do is one line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from image import __main__ as program
from image import machine
from image.bases import ResolutionError, resolve

PROJECT = Path(__file__).parents[2]
DIGEST = f"sha256:{'a' * 64}"
ENGINE = """#!/bin/sh
printf '%s\\n' "$*" >> "$0.calls"
case "$1 $2" in
"pull --quiet") [ ! -e "$0.offline" ] || { echo 'lookup registry: no such host' >&2; exit 1; } ;;
"image inspect") cat "$0.digests" ;;
esac
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """A container engine with one image, which writes down how it is called."""
    path = tmp_path / "engine"
    path.write_text(ENGINE, encoding="utf-8")
    path.chmod(0o755)
    Path(f"{path}.digests").write_text(json.dumps([f"python@{DIGEST}"]), encoding="utf-8")
    return path


def calls(engine: Path) -> list[str]:
    return Path(f"{engine}.calls").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    ("name", "resolved"),
    [
        ("python:3.11", f"python@{DIGEST}"),
        ("registry:5000/python", f"registry:5000/python@{DIGEST}"),
        ("registry:5000/python:3.11", f"registry:5000/python@{DIGEST}"),
    ],
)
def test_a_tag_is_pulled_and_gets_its_digest(engine, name, resolved):
    assert resolve(str(engine), name, "linux/arm64") == resolved
    assert calls(engine)[0] == f"pull --quiet --platform=linux/arm64 {name}"


def test_an_image_with_a_digest_is_not_pulled(engine):
    assert resolve("no-such-engine", f"python@{DIGEST}") == f"python@{DIGEST}"


def test_an_image_that_cannot_be_pulled_is_named_with_the_reason_and_a_way_out(engine):
    Path(f"{engine}.offline").touch()
    with pytest.raises(ResolutionError, match=r"^python:3: .* pull: lookup registry: no such host\. .*ENGINE=none"):
        resolve(str(engine), "python:3")


@pytest.mark.parametrize("answer", ["[]", "null", "", "<no value>"])
def test_an_engine_without_a_digest_is_an_error(engine, answer):
    Path(f"{engine}.digests").write_text(answer, encoding="utf-8")
    with pytest.raises(ResolutionError, match="reports no digest"):
        resolve(str(engine), "python:3")


@pytest.mark.parametrize("name", ["", "a b", "$(id)", "-v", "a;b", "a@sha256:12", f"a@{DIGEST}0"])
def test_a_name_that_a_shell_or_an_engine_could_misread_is_refused(engine, name):
    with pytest.raises(ResolutionError, match="must be NAME:TAG or NAME@sha256:DIGEST"):
        resolve(str(engine), name)


def make(target: str, *words: str) -> subprocess.CompletedProcess[str]:
    words = (target, f"PYTHON={sys.executable}", "COMMIT=c0ffee", *words)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(["make", "-s", *words], cwd=PROJECT, capture_output=True, text=True, check=False, env=clean)


def test_make_image_needs_no_arguments_and_prints_the_digests(engine):
    done = make("image", f"ENGINE={engine}")
    assert done.returncode == 0, done.stderr
    *_, built = calls(engine)
    base, build = f"gcr.io/distroless/python3-debian12@{DIGEST}", f"docker.io/library/python@{DIGEST}"
    assert built.startswith(f"build --build-arg BUILD={build} --build-arg BASE={base} --build-arg COMMIT=c0ffee --tag ")
    assert done.stderr.splitlines() == [f"BUILD {build}", f"BASE  {base}"]


def test_make_sbom_builds_on_the_same_images(engine):
    assert make("sbom", f"ENGINE={engine}", "BASE=python:3").returncode == 0
    *_, built = calls(engine)
    assert f"--build-arg BASE=python@{DIGEST} --target sbom" in built


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param(["ENGINE=no-such-engine"], "no-such-engine: command not found. Set ENGINE to", id="no-engine"),
        pytest.param(["ENGINE=none", "TAG=harbormaster"], "'harbormaster': must be REPOSITORY:TAG", id="no-tag"),
        pytest.param(["ENGINE=none", "PLATFORM=plan9/pdp11"], "PLATFORM=plan9/pdp11: must be linux/", id="platform"),
    ],
)
def test_what_cannot_be_built_is_one_line(words, complaint):
    done = make("image", *words)
    assert done.returncode == 2
    first, *rest = done.stderr.splitlines()
    assert first.startswith(f"error: {complaint}")
    assert [line for line in rest if not line.startswith("make: ")] == []


def test_a_machine_that_lacks_something_is_told_before_the_build(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert program.main(["archive", "--name=a:1", str(tmp_path / "it.tar")]) == 1
    assert "requires root on Linux" in capsys.readouterr().err
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(machine, "PATH", str(tmp_path))
    with pytest.raises(machine.MachineError, match="requires chroot, ldd, mount, unshare, not found in"):
        machine.check_machine()


@pytest.mark.parametrize("text", ["yesterday", "-1", "\N{FULLWIDTH DIGIT ONE}", "9" * 12])
def test_a_time_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    with pytest.raises(ValueError, match="must be seconds since 1970"):
        program._source_time()
