"""Files that get into layers come from the folder of the build, or from a layer."""

from pathlib import Path

import pytest

from image.layers import Context, LayerError, copy_from_layers
from image.machine import copy_with_links


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """A folder to build from, next to a file that is none of its."""
    folder = tmp_path / "context"
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "a.py").touch()
    (folder / ".dockerignore").write_text("**/ignored\n", encoding="utf-8")
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    return Context(folder, {})


@pytest.mark.parametrize("target", ["../../secret", "a.py"])
@pytest.mark.parametrize("source", ["code", "code/*"])
def test_a_symbolic_link_is_not_copied(tmp_path, context, source, target):
    (tmp_path / "context/code/link").symlink_to(target)
    with pytest.raises(LayerError, match="code/link: must not be a symbolic link"):
        context.files(source)


def test_a_symbolic_link_that_is_ignored_does_not_matter(tmp_path, context):
    (tmp_path / "context/code/ignored").symlink_to("../../secret")
    assert [name for name, _, _ in context.files("code")] == ["a.py"]


@pytest.mark.parametrize("source", ["../secret", "code/../../secret", "/etc/passwd"])
def test_a_path_out_of_the_folder_is_refused(context, source):
    with pytest.raises(LayerError, match="must be inside of"):
        context.files(source)


def test_a_folder_that_is_a_link_out_of_a_layer_is_not_entered(tmp_path):
    layer = tmp_path / "layer"
    layer.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").touch()
    (layer / "made").symlink_to(tmp_path / "outside")
    with pytest.raises(LayerError, match="/made must not be a symbolic link"):
        copy_from_layers([layer], "/made/secret", tmp_path / "copy")
    copy_from_layers([layer], "/made", tmp_path / "copy")
    assert (tmp_path / "copy").is_symlink()


def test_a_library_is_copied_with_every_link_that_leads_to_it(tmp_path):
    machine, layer = tmp_path / "machine", tmp_path / "layer"
    (machine / "usr/lib").mkdir(parents=True)
    (machine / "usr/lib/libit.so.1.2").write_text("it", encoding="utf-8")
    (machine / "usr/lib/libit.so.1").symlink_to("libit.so.1.2")
    (machine / "lib").symlink_to("usr/../usr/lib")
    layer.mkdir()
    for _ in range(2):
        copy_with_links(machine / "lib/libit.so.1", layer)
    copy = layer / machine.relative_to("/")
    assert (copy / "lib").readlink() == Path("usr/../usr/lib")
    assert (copy / "lib/libit.so.1").readlink() == Path("libit.so.1.2")
    assert (copy / "usr/lib/libit.so.1.2").read_text(encoding="utf-8") == "it"
