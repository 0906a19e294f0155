"""The archive of an image: two formats in one file, reproducible, and complete or not written."""

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from image.archive import Contents, full_name, write_archive
from image.layers import LayerError

TIME = 1_700_000_000
NAME = "registry.example.com/harbormaster:0.1.0"


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """A layer with folders, a program and symbolic links."""
    return make_layer(tmp_path / "layer", ["bin/program", "etc/name"])


def make_layer(folder: Path, names: list[str]) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name, encoding="utf-8")
    (folder / "bin/program").chmod(0o755)
    (folder / "link").symlink_to("bin/program")
    return folder


def blobs_of(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def names_in(content: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return tar.getnames()


def blob(files: dict[str, bytes], descriptor: dict[str, object]) -> bytes:
    """Return a blob whose digest and size are those of its descriptor."""
    digest = str(descriptor["digest"]).removeprefix("sha256:")
    content = files[f"blobs/sha256/{digest}"]
    assert hashlib.sha256(content).hexdigest() == digest
    assert len(content) == descriptor["size"]
    return content


def test_it_is_an_oci_layout_and_an_archive_of_docker_with_the_same_blobs(tmp_path, layer):
    upper = tmp_path / "upper"
    upper.mkdir()
    (upper / "more").write_text("more", encoding="utf-8")
    image = Contents(
        [upper, layer],
        "arm64",
        user="65532:65532",
        entrypoint=["program"],
        environment={"A": "b=c"},
        labels={"title": "it"},
    )
    digest = write_archive(tmp_path / "it.tar", image, NAME, time=TIME)
    files = blobs_of(tmp_path / "it.tar")
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    [entry] = json.loads(files["index.json"])["manifests"]
    assert entry["digest"] == digest
    assert entry["platform"] == {"architecture": "arm64", "os": "linux"}
    assert entry["annotations"] == {
        "io.containerd.image.name": NAME,
        "org.opencontainers.image.ref.name": "0.1.0",
    }
    manifest = json.loads(blob(files, entry))
    config = json.loads(blob(files, manifest["config"]))
    layers = [blob(files, each) for each in manifest["layers"]]
    assert [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in layers] == config["rootfs"]["diff_ids"]
    assert [names_in(each) for each in layers] == [
        ["bin", "etc", "link", "bin/program", "etc/name"],
        ["more"],
    ]
    assert config["config"] == {
        "User": "65532:65532",
        "Env": ["A=b=c"],
        "Entrypoint": ["program"],
        "WorkingDir": "/",
        "Labels": {"title": "it"},
    }
    assert config["created"] == "2023-11-14T22:13:20Z"
    [docker] = json.loads(files["manifest.json"])
    assert docker["RepoTags"] == [NAME]
    assert docker["Config"] == f"blobs/{manifest['config']['digest'].replace(':', '/')}"
    assert docker["Layers"] == [f"blobs/{each['digest'].replace(':', '/')}" for each in manifest["layers"]]


def test_the_same_files_give_the_same_bytes_whenever_they_were_made(tmp_path):
    first = make_layer(tmp_path / "first", ["bin/program", "etc/name", "etc/other"])
    second = make_layer(tmp_path / "second", ["etc/other", "etc/name", "bin/program"])
    for path in second.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
    for name, folder in (("a.tar", first), ("b.tar", second)):
        write_archive(tmp_path / name, Contents([folder], "amd64"), NAME, time=TIME)
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()


def test_a_link_out_of_the_layer_is_kept_and_never_followed(tmp_path, layer):
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (layer / "out").symlink_to(tmp_path)
    (layer / "up").symlink_to("../secret")
    write_archive(tmp_path / "it.tar", Contents([layer], "amd64"), NAME, time=TIME)
    files = blobs_of(tmp_path / "it.tar")
    manifest = json.loads(blob(files, json.loads(files["index.json"])["manifests"][0]))
    with tarfile.open(fileobj=io.BytesIO(blob(files, manifest["layers"][0]))) as tar:
        assert {member.name: member.linkname for member in tar if member.issym()} == {
            "link": "bin/program",
            "out": str(tmp_path),
            "up": "../secret",
        }
        assert not [name for name in tar.getnames() if name.startswith(("/", "..", "out/"))]


@pytest.mark.parametrize("name", ["bin/.wh.program", "bin/pipe"])
def test_a_file_that_cannot_be_in_an_image_is_named_and_the_old_archive_remains(tmp_path, layer, name):
    path = tmp_path / "dist" / "it.tar"
    path.parent.mkdir()
    path.write_bytes(b"old")
    if name.endswith("pipe"):
        os.mkfifo(layer / name)
    else:
        (layer / name).touch()
    with pytest.raises(LayerError, match=f"^{name}: "):
        write_archive(path, Contents([layer], "amd64"), NAME, time=TIME)
    assert [(each.name, each.read_bytes()) for each in path.parent.iterdir()] == [("it.tar", b"old")]


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("harbormaster:0.1.0", "docker.io/library/harbormaster:0.1.0"),
        ("team/harbormaster:0.1.0", "docker.io/team/harbormaster:0.1.0"),
        ("localhost/harbormaster:x", "localhost/harbormaster:x"),
        ("registry:5000/a/b:X_1", "registry:5000/a/b:X_1"),
        ("ghcr.io/a:1", "ghcr.io/a:1"),
    ],
)
def test_a_name_without_a_registry_is_one_of_docker_hub(name, full):
    assert full_name(name) == full


@pytest.mark.parametrize(
    "name",
    ["", "harbormaster", "Harbor:1", "a b:1", "../a:1", "a:1\n", f"a@sha256:{'0' * 64}", "a:1@b", "a:" + "1" * 129],
)
def test_a_name_that_is_not_repository_and_tag_is_refused_before_anything_is_written(tmp_path, layer, name):
    with pytest.raises(ValueError, match="must be REPOSITORY:TAG"):
        write_archive(tmp_path / "dist" / "it.tar", Contents([layer], "amd64"), name, time=TIME)
    assert not (tmp_path / "dist").exists()


def test_equal_layers_are_one_blob_and_overwrite_no_other(tmp_path, layer):
    equal = [tmp_path / "first", tmp_path / "second"]
    for folder in equal:
        (folder / "tmp").mkdir(parents=True)
    write_archive(tmp_path / "it.tar", Contents([*equal, layer], "arm64"), NAME, time=TIME)
    files = blobs_of(tmp_path / "it.tar")
    [entry] = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blob(files, entry))
    json.loads(blob(files, manifest["config"]))
    assert [names_in(blob(files, each)) for each in manifest["layers"]][1:] == [["tmp"], ["tmp"]]
