"""The folder of ``render -o dir``: safe names, whole files, and files of others."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scorer.builders import modest
from webhook.cli.errors import UserError
from webhook.cli.planning.rendered_folder import _CLAIM_TEXT, FILE_MARKER, FOLDER_MARKER, safe_name, write_folder

WORD = st.text(min_size=1, max_size=20) | st.sampled_from(
    [".", "..", "../x", "/etc", "a/b", "CON", "con.x", "~", "a_b"]
)


@given(st.lists(WORD, min_size=1, max_size=3))
@modest(200)
def test_no_name_leads_out_of_the_folder(words):
    name = safe_name(*words)
    for path in (PurePosixPath(name), PureWindowsPath(name)):
        assert path.name == name
    assert name not in (".", "..")
    assert name.isascii()
    assert name == name.lower()
    assert len(name) <= 200


@given(st.lists(WORD, min_size=1, max_size=3), st.lists(WORD, min_size=1, max_size=3))
@modest(200)
def test_different_objects_have_different_files(first, second):
    assert (safe_name(*first) == safe_name(*second)) == (first == second)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        pytest.param(("configmap", "shop", "rates"), "configmap_shop_rates", id="plain"),
        pytest.param(("clusterrole", "system:node"), "clusterrole_system%3anode", id="colon"),
        pytest.param(("..",), "%2e.", id="parent"),
        pytest.param(("a/b",), "a%2fb", id="slash"),
        pytest.param(("Web",), "%57eb", id="upper-case"),
        pytest.param(("nul",), "%6eul", id="reserved"),
    ],
)
def test_names(words, name):
    assert safe_name(*words) == name


def test_long_names_are_cut_and_remain_different():
    first, second = safe_name("x" * 300 + "a"), safe_name("x" * 300 + "b")
    assert first != second
    assert len(first) == 200


def files_in(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def texts(folder):
    return {
        name: text.removeprefix(FILE_MARKER) for name, text in files_in(folder).items() if FOLDER_MARKER not in name
    }


@pytest.fixture
def out(tmp_path):
    return tmp_path / "deep" / "out"


def test_files_are_written_and_stale_ones_removed(out):
    assert write_folder(out, {"a": {"x.yaml": "1", "y.yaml": "2"}, "b": {"x.yaml": "3"}}, overwrite=False) == 0
    assert texts(out) == {"a/x.yaml": "1", "a/y.yaml": "2", "b/x.yaml": "3"}
    assert write_folder(out, {"a": {"x.yaml": "4"}}, overwrite=False) == 2
    assert texts(out) == {"a/x.yaml": "4"}
    assert not (out / "b").exists()


def test_writing_the_same_again_changes_nothing(out):
    files = {"a": {"x.yaml": "1"}}
    write_folder(out, files, overwrite=False)
    before = files_in(out)
    assert write_folder(out, files, overwrite=False) == 0
    assert files_in(out) == before


def test_files_of_others_are_kept(out):
    write_folder(out, {"a": {"x.yaml": "1"}, "b": {"x.yaml": "1"}}, overwrite=False)
    (out / "README").write_text("ours")
    (out / "a" / "kustomization.yaml").write_text("theirs")
    (out / "b" / "patch.yaml").write_text("theirs")
    (out / "a" / "link").symlink_to("x.yaml")
    write_folder(out, {"a": {"y.yaml": "2"}}, overwrite=False)
    assert (out / "a" / "link").is_symlink()
    (out / "a" / "link").unlink()
    assert texts(out) == {"README": "ours", "a/kustomization.yaml": "theirs", "a/y.yaml": "2", "b/patch.yaml": "theirs"}


def test_a_folder_of_others_is_refused_unless_asked(out):
    out.mkdir(parents=True)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="has files that harbormaster did not render"):
        write_folder(out, {"a": {"x.yaml": "1"}}, overwrite=False)
    assert files_in(out) == {"notes.txt": "mine"}
    write_folder(out, {"a": {"x.yaml": "1"}}, overwrite=True)
    assert texts(out) == {"notes.txt": "mine", "a/x.yaml": "1"}


def test_a_folder_of_others_with_the_name_of_a_cluster_is_refused(out):
    write_folder(out, {"a": {"x.yaml": "1"}}, overwrite=False)
    (out / "b").mkdir()
    with pytest.raises(UserError, match="b is not a folder that harbormaster rendered"):
        write_folder(out, {"b": {"x.yaml": "1"}}, overwrite=False)
    assert texts(out) == {"a/x.yaml": "1"}


def test_a_link_in_the_place_of_a_cluster_is_not_followed(out, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / FOLDER_MARKER).write_text("")
    write_folder(out, {"a": {"x.yaml": "1"}}, overwrite=False)
    (out / "b").symlink_to(elsewhere)
    with pytest.raises(UserError, match="b is not a folder"):
        write_folder(out, {"b": {"x.yaml": "1"}}, overwrite=False)
    write_folder(out, {"b": {"x.yaml": "1"}}, overwrite=True)
    assert list(elsewhere.iterdir()) == [elsewhere / FOLDER_MARKER]
    assert not (out / "b").is_symlink()


def test_a_write_that_fails_leaves_everything_as_it_was(out):
    write_folder(out, {"a": {"x.yaml": "1"}, "b": {"x.yaml": "1"}}, overwrite=False)
    before = files_in(out)
    with pytest.raises(UserError, match="file name too long"):
        write_folder(out, {"a": {"x.yaml": "2"}, "b": {"y" * 300: "2"}}, overwrite=False)
    assert files_in(out) == before
    assert sorted(path.name for path in out.iterdir()) == [FOLDER_MARKER, "a", "b"]


def test_a_file_in_its_place_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is not a folder"):
        write_folder(tmp_path / "file", {"a": {}}, overwrite=True)


def test_a_swap_that_fails_puts_the_old_folder_back(out, monkeypatch):
    write_folder(out, {"a": {"x.yaml": "1"}}, overwrite=False)
    rename, target = os.rename, out / "a"

    def refuse(source, destination, **more):
        if str(destination) == str(target) and "new" in str(source):
            raise OSError(5, "Input/output error", str(destination))
        return rename(source, destination, **more)

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(UserError, match="input/output error"):
        write_folder(out, {"a": {"x.yaml": "2"}}, overwrite=False)
    assert texts(out) == {"a/x.yaml": "1"}


RENDERED = {"bravelion": {"web.yaml": "kind: Web\n"}}


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize(
    "place",
    [
        pytest.param("bravelion", id="file-named-like-a-cluster"),
        pytest.param("bravelion/web.yaml", id="file-named-like-an-object"),
    ],
)
def test_a_file_of_a_user_is_never_replaced(tmp_path, place, overwrite):
    if "/" in place:
        write_folder(tmp_path, {"bravelion": {}}, overwrite=False)
    (tmp_path / place).write_text("precious")
    with pytest.raises(UserError, match=f"move .*{place}, which harbormaster did not render"):
        write_folder(tmp_path, RENDERED, overwrite=overwrite)
    assert (tmp_path / place).read_text() == "precious"


@pytest.mark.parametrize("place", [FOLDER_MARKER, f"bravelion/{FOLDER_MARKER}", "bravelion/web.yaml"])
def test_no_link_is_followed_or_replaced(tmp_path, place):
    folder, outside = tmp_path / "out", tmp_path / "outside"
    (folder / place).parent.mkdir(parents=True)
    (folder / place).symlink_to(outside)
    with pytest.raises(UserError, match="which harbormaster did not render"):
        write_folder(folder, RENDERED, overwrite=True)
    assert (folder / place).is_symlink()
    assert not outside.exists()


def test_a_link_to_the_folder_itself_may_be_used_again(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for _ in range(2):
        write_folder(tmp_path / "link", RENDERED, overwrite=False)
    assert (tmp_path / "real/bravelion/web.yaml").read_text() == FILE_MARKER + "kind: Web\n"


def test_an_interruption_between_the_renames_loses_nothing(tmp_path, monkeypatch):
    write_folder(tmp_path, RENDERED, overwrite=False)
    (tmp_path / "bravelion/README").write_text("precious")
    rename, renamed = type(tmp_path).rename, []

    def interrupted(self, target):
        renamed.append(self)
        if len(renamed) == 2:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(type(tmp_path), "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_folder(tmp_path, RENDERED, overwrite=False)
    assert (tmp_path / "bravelion/README").read_text() == "precious"


@contextmanager
def killed(folder, renames):
    """Run until that number of renames, then leave everything as SIGKILL does. The claim is held within the context."""
    code = (
        "import os, pathlib, signal, sys\n"
        "from webhook.cli.planning.rendered_folder import write_folder\n"
        "rename, left = pathlib.Path.rename, [int(sys.argv[2])]\n"
        "def stopped(self, target):\n"
        "    if not left[0]:\n"
        "        print('stopped', flush=True)\n"
        "        signal.pause()\n"
        "    left[0] -= 1\n"
        "    return rename(self, target)\n"
        "pathlib.Path.rename = stopped\n"
        "write_folder(pathlib.Path(sys.argv[1]), {'a': {'x.yaml': '2'}}, overwrite=False)\n"
    )
    command = [sys.executable, "-c", code, str(folder), str(renames)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "stopped\n"
            yield
        finally:
            process.kill()


def temporaries(folder):
    return list(folder.glob(f"{FOLDER_MARKER}-*"))


def test_the_temporary_folder_of_a_killed_run_is_removed_and_nothing_is_lost(tmp_path):
    write_folder(tmp_path, {"a": {"x.yaml": "1"}}, overwrite=False)
    (tmp_path / "a/README").write_text("precious")
    with killed(tmp_path, renames=1):
        assert not (tmp_path / "a").exists(), "killed between the renames"
        assert len(temporaries(tmp_path)) == 1
        write_folder(tmp_path, {}, overwrite=False)
        assert len(temporaries(tmp_path)) == 1, "the other run still uses it"
    write_folder(tmp_path, {"a": {"x.yaml": "3"}}, overwrite=False)
    assert texts(tmp_path) == {"a/x.yaml": "3", "a/README": "precious"}
    assert not temporaries(tmp_path)


@pytest.mark.parametrize("claim", [None, "mine", _CLAIM_TEXT], ids=["no-claim", "another-claim", "more-files"])
def test_a_folder_of_a_user_with_such_a_name_is_kept(tmp_path, claim):
    write_folder(tmp_path, {}, overwrite=False)
    own = tmp_path / f"{FOLDER_MARKER}-backup"
    own.mkdir()
    (own / "README").write_text("precious")
    if claim is not None:
        (own / "claim").write_text(claim)
    write_folder(tmp_path, {"a": {"x.yaml": "3"}}, overwrite=False)
    assert (own / "README").read_text() == "precious"
