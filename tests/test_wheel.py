"""The wheel, installed into an environment of its own."""

import os
import subprocess
import sys
import sysconfig
import venv
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
PROGRAMS = Path(sys.executable).parent
FLEET = ROOT / "examples" / "fleet"


def run(*words: object, where: Path) -> subprocess.CompletedProcess[str]:
    """Run a program without any settings of ours."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(where)}
    command = [str(word) for word in words]
    return subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done = run(PROGRAMS / "hatchling", "build", "--target", "wheel", "--directory", folder, where=ROOT)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The environment; what the wheel depends on is lent by the one that runs the tests."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    install = ("pip", "install", "--quiet", "--offline", "--no-deps", "--python", python, wheel)
    done = run(PROGRAMS / "uv", *install, where=folder)
    assert done.returncode == 0, done.stderr
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder


def test_it_has_types_the_example_the_chart_and_manual_pages(wheel):
    names = ZipFile(wheel).namelist()
    assert {f"{package}/py.typed" for package in ("webhook", "scorer", "certs")} <= set(names)
    assert {Path(name).name for name in names if name.startswith("webhook/example_fleet/")} == {
        path.name for path in FLEET.iterdir()
    }
    chart = ROOT / "charts" / "harbormaster-agent"
    packed = {
        name.removeprefix("webhook/charts/harbormaster-agent/") for name in names if "harbormaster-agent/" in name
    }
    assert packed == {str(path.relative_to(chart)) for path in chart.rglob("*") if path.is_file()}
    pages = {Path(name).name for name in names if "/share/man/man1/" in name}
    assert pages == {path.name for path in (ROOT / "docs" / "man").iterdir()}


def test_it_says_where_the_project_is(wheel):
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(name))
    assert metadata.get_all("Project-URL") == ["Homepage, https://harbormaster.dev"]


def test_the_example_runs_from_an_empty_folder(installed, tmp_path):
    done = run(
        installed / "bin" / "harbormaster",
        "up",
        "--example",
        "--once",
        *("--https-port", 0),
        *("--http-port", 0),
        where=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "crp/storefront" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == [".local"]  # its data folder, in what is its home here


def test_it_is_the_wheel_that_runs(installed, tmp_path):
    told = run(installed / "bin" / "python", "-c", "import webhook; print(webhook.__file__)", where=tmp_path).stdout
    assert Path(told.strip()).is_relative_to(installed)
