"""Building programs with the real toolchain: what is kept, what is rebuilt, and what a failure says."""

import contextlib
import io
import subprocess
import sys
import threading

import pytest

from e2e.controlplane import build as building
from e2e.controlplane.build import BuildError, Module, Programs, build, toolchain
from tests.waiting import block_until

MAIN = 'package main\n\nimport "fmt"\n\nvar version = "unknown"\n\nfunc main() { fmt.Println("%s", version) }\n'
TWO = Module("tools", "v1.2.3", {"first": "example.com/tools/first", "second": "example.com/tools/second"}, {})
STAMPED = Module("tools", "v1.2.3", {"first": "example.com/tools/first"}, {"main.version": "v1.2.3"})


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A module of two programs, and a cache of its own."""
    folder = tmp_path / "tools"
    for name in ("first", "second"):
        (folder / name).mkdir(parents=True)
        (folder / name / "main.go").write_text(MAIN % name)
    (folder / "go.mod").write_text("module example.com/tools\n\ngo 1.26\n")
    (folder / "go.sum").touch()
    monkeypatch.setattr(building, "HERE", tmp_path)
    cached = subprocess.run([toolchain(), "env", "GOCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    monkeypatch.setenv(
        "GOCACHE", cached
    )  # below XDG_CACHE_HOME by default: the standard library would be compiled again
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def printed(path) -> str:
    return subprocess.run([path], capture_output=True, text=True, check=True).stdout


def test_programs_of_a_module_are_built_with_their_stamps_and_kept(source, capsys):
    assert {name: printed(path) for name, path in build(TWO).items()} == {
        "first": "first unknown\n",
        "second": "second unknown\n",
    }
    first = build(STAMPED)["first"]
    assert printed(first) == "first v1.2.3\n"
    capsys.readouterr()
    assert build(STAMPED)["first"] == first
    assert capsys.readouterr().out == "", "nothing is built a second time"


def test_what_an_interrupted_build_or_a_crash_has_left_is_built_again(source):
    paths = build(TWO)
    folder = paths["first"].parent
    paths["first"].write_bytes(b"")  # renamed, never written: the machine lost power
    paths["second"].unlink()
    (folder / "unfinished").mkdir()
    (folder / "unfinished" / "second").write_bytes(b"half")
    assert {name: printed(path) for name, path in build(TWO).items()} == {
        "first": "first unknown\n",
        "second": "second unknown\n",
    }
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "first", "second"]


def test_another_version_has_a_folder_of_its_own(source):
    before = build(STAMPED)["first"]
    (source / "go.mod").write_text("module example.com/tools\n\ngo 1.26\n\n// changed\n")
    after = build(STAMPED)["first"]
    assert before.parent != after.parent
    assert printed(before) == printed(after) == "first v1.2.3\n"


def test_a_program_that_does_not_build_is_named_with_the_toolchains_words_and_leaves_nothing(source):
    (source / "second" / "main.go").write_text("package main\n\nfunc main() { undefined() }\n")
    with pytest.raises(BuildError, match=r"(?s)^first, second: .*undefined: undefined"):
        build(TWO)
    folder = building._folder(TWO)
    assert not (folder / "first").exists()
    (source / "second" / "main.go").write_text(MAIN % "second")
    assert printed(build(TWO)["second"]) == "second unknown\n"


def test_a_full_disk_is_named(source, monkeypatch):
    (source / "second" / "main.go").write_text("package main\n\nfunc main() { undefined() }\n")
    monkeypatch.setattr(building, "LOW_DISK_BYTES", 1 << 62)
    with pytest.raises(BuildError, match=r"MiB free at .*tools-v1\.2\.3-.*; a build needs about 8 GiB$"):
        build(TWO)


def test_two_processes_build_once(source):
    output = io.StringIO()  # not capsys: `readouterr` loses what another thread prints meanwhile
    with building.alone(building._folder(TWO)), contextlib.redirect_stdout(output):
        waiting = threading.Thread(target=build, args=(TWO,))
        waiting.start()
        block_until(lambda: "waiting for another process" in output.getvalue())
    waiting.join(120)
    assert not waiting.is_alive()
    assert printed(build(TWO)["first"]) == "first unknown\n"


def test_without_a_toolchain_on_the_path_one_is_fetched(source, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("GOROOT", raising=False)
    go = building.toolchain()
    assert go.startswith(str(building.cache()))
    assert building._go_version(go) >= building.GO


def test_a_program_of_another_name_is_refused():
    with pytest.raises(KeyError):
        Programs()["kube-proxy"]
    command = [sys.executable, "-m", "e2e.controlplane.build", "kubectl", "kube-proxy"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("controlplane: kube-proxy: must be among etcd, kube-apiserver, ")
