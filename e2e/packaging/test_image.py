"""The image that the Dockerfile describes: what is in it, whose it is, and what its build refuses."""

import json
import os
import re
import shutil
import stat
import subprocess
import tarfile
import tomllib
from hashlib import file_digest
from pathlib import Path
from textwrap import dedent

import pytest

from e2e.kubelet.images import PROJECT, image_of, load_image
from image.__main__ import main
from image.archive import Contents, write_archive
from image.build import DIGEST, BuildError, Built, build
from image.dockerfile import DockerfileError, Step, expand, read_dockerfile
from image.layers import Context, copy_from_layers

ENVIRONMENT = "opt/harbormaster"
SHELLS = {"ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "mksh", "sh", "tcsh", "toybox", "zsh"}
BUILD_ONLY = {"editables", "hatchling", "pip", "setuptools"}


@pytest.fixture(scope="module")
def built() -> Built:
    """The last stage."""
    return build(PROJECT)


@pytest.fixture(scope="module")
def files(built: Built) -> list[Path]:
    """All that the image adds to what it stands on."""
    return list((built.layers[1] / ENVIRONMENT).rglob("*"))


def locked(name: str = "requirements.txt") -> set[str]:
    """The distributions of a lock that this Python needs."""
    lines = (PROJECT / name).read_text(encoding="utf-8").splitlines()
    return {normal(line.partition("==")[0]) for line in lines if "==" in line}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_it_holds_what_is_locked_and_ourselves_and_nothing_else(files):
    found = {normal(path.name.partition("-")[0]) for path in files if path.name.endswith(".dist-info")}
    assert found == locked() | {"harbormaster-fleet"}
    assert not found & BUILD_ONLY


def test_everyone_may_read_it_and_only_root_may_write_it(files):
    assert files
    for path in files:
        about = path.lstat()
        assert (about.st_uid, about.st_gid) == (0, 0), path
        if not path.is_symlink():
            wanted = 0o055 if path.is_dir() else 0o044
            assert about.st_mode & 0o022 == 0, path
            assert about.st_mode & wanted == wanted, path
        assert not about.st_mode & (stat.S_ISUID | stat.S_ISGID), path


def test_it_neither_brings_a_shell_nor_needs_one(built, files):
    """So it can stand on an image without one, where an attacker finds none to run commands in."""
    programs = [path for path in files if path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o111]
    scripts = {path: path.read_bytes().splitlines()[0].decode() for path in programs if path.read_bytes()[:2] == b"#!"}
    assert [first for path, first in scripts.items() if path.name == "harbormaster"] == [
        f"#!/{ENVIRONMENT}/bin/python3"
    ]
    interpreters = {re.split("[ /]", first)[-1] for first in scripts.values()}  # also behind /usr/bin/env
    assert interpreters == {"python3", "python"}, "croniter's own module names the latter; nobody runs it as a program"
    assert not SHELLS & {path.name for path in files}
    last = read_dockerfile(PROJECT / "Dockerfile").stage("")
    assert [step.text for step in last.steps if step.word in {"RUN", "ENTRYPOINT"} and not step.is_exec] == []


def test_all_code_is_compiled_for_good(files):
    """A root that is read-only has no room for bytecode, and one that is checked against times of files is not used."""
    sources = [path for path in files if path.suffix == ".py" and "site-packages/webhook" in str(path)]
    assert sources
    for source in sources:
        compiled = next((source.parent / "__pycache__").glob(f"{source.stem}.cpython-*.pyc"))
        assert compiled.read_bytes()[4:8] == b"\x01\x00\x00\x00", source  # by a hash, and never checked


def test_it_runs_as_the_user_that_the_charts_name(built):
    image = image_of(built)
    assert image.user == 65532
    for chart in ("harbormaster/templates/_pod.tpl", "harbormaster-agent/templates/deployment.yaml"):
        text = (PROJECT / "charts" / chart).read_text(encoding="utf-8")
        assert {int(each) for each in re.findall(r"runAsUser: (\d+)", text)} == {image.user}
    assert image.entrypoint == ["harbormaster"]


def test_it_says_which_commit_it_was_made_of():
    assert image_of(build(PROJECT, COMMIT="c0ffee")).environment["HARBORMASTER_COMMIT"] == "c0ffee"


def test_the_list_of_what_is_in_it_is_complete():
    found = json.loads((build(PROJECT, "sbom").layers[0] / "sbom.json").read_text(encoding="utf-8"))
    assert found["bomFormat"] == "CycloneDX"
    assert found["metadata"]["component"]["name"] == "harbormaster-fleet"
    assert {normal(each["name"]) for each in found["components"]} == locked()
    assert all(each["version"] for each in found["components"])


@pytest.mark.parametrize("which", ["BUILD", "BASE"])
@pytest.mark.parametrize("name", ["python:3.11", "python@sha256:12", f"python@{DIGEST}0", f"python@{DIGEST.upper()}"])
def test_an_image_without_a_digest_is_refused(which, name):
    with pytest.raises(BuildError, match=f"{re.escape(name)}: name the image by its digest"):
        build(PROJECT, "tools", **{which: name})


def test_a_step_that_fails_says_what_it_said_and_leaves_no_layer(tmp_path):
    for _ in range(2):  # a layer that was left would be taken for done
        with pytest.raises(BuildError, match=r"exit code 7\ngone wrong"):
            build_text(tmp_path, "FROM ${BUILD}\nRUN echo gone wrong; exit 7\n")


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    """The image as an archive, made by `make image ENGINE=none`, and its layers on top of each other."""
    folder = tmp_path_factory.mktemp("archive")
    assert main(["archive", "--name=harbormaster:0.1.0", "--commit=c0ffee", str(folder / "it.tar")]) == 0
    return folder / "it.tar"


@pytest.fixture(scope="module")
def root_folder(archive) -> Path:
    """The root file system of that image."""
    folder = archive.parent / "root"
    load_image(archive, folder)
    return folder


def test_an_archive_runs_on_nothing_but_what_is_in_it(root_folder):
    def run(*words: str) -> str:
        command = [shutil.which("chroot"), "--userspec=65532:65532", str(root_folder), *words]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={"PATH": "/opt/harbormaster/bin"}
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("harbormaster", "--version") == f"harbormaster {version()}\n"
    everything = "import pkgutil, ssl, sqlite3, uvloop, numpy.linalg, cryptography.hazmat.bindings._rust, webhook\n"
    everything += "for each in pkgutil.walk_packages(webhook.__path__, 'webhook.'):\n"
    # The image has no optional dependencies, which the server for assistants needs.
    everything += "    each.name.endswith(('__main__', 'assistants.server')) or __import__(each.name)\n"
    everything += "print(len(ssl.create_default_context().get_ca_certs()) > 50)"
    environment = 'import os; os.environ["SSL_CERT_FILE"] = "/etc/ssl/certs/ca-certificates.crt"\n'
    assert run("python3", "-c", environment + everything) == "True\n"


def version() -> str:
    return str(tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def test_an_archive_has_no_shell_and_no_program_but_python(root_folder):
    programs = {
        path.name for folder in ("bin", "sbin", "usr/bin", "usr/sbin") for path in root_folder.glob(f"{folder}/*")
    }
    assert not SHELLS & {path.name for path in root_folder.rglob("*")}
    assert {name for name in programs if not name.startswith("python3")} == set()
    open_files = [path for path in root_folder.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o022]
    assert [(path.name, stat.filemode(path.stat().st_mode)) for path in open_files] == [("tmp", "drwxrwxrwt")]


def test_an_archive_is_the_same_when_everything_is_made_anew(archive, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["archive", "--name=harbormaster:0.1.0", "--commit=c0ffee", str(tmp_path / "again.tar")]) == 0
    with archive.open("rb") as first, (tmp_path / "again.tar").open("rb") as second:
        assert file_digest(first, "sha256").digest() == file_digest(second, "sha256").digest()


def test_what_a_layer_removes_is_marked_as_oci_images_do(tmp_path):
    """A container engine would show it otherwise."""
    build_text(tmp_path, "FROM ${BUILD}\n")
    built = build_text(
        tmp_path,
        """
        FROM ${BUILD}
        RUN mkdir -p /opt/it/folder && touch /opt/it/file /opt/it/folder/old
        RUN rm -r /opt/it/file /opt/it/folder && mkdir /opt/it/folder && touch /opt/it/folder/new
        """,
    )
    write_archive(tmp_path / "it.tar", Contents(built.layers[:1], "amd64"), "a:1", time=0)
    with tarfile.open(tmp_path / "it.tar") as tar:
        [image] = json.load(tar.extractfile("manifest.json"))
        with tarfile.open(fileobj=tar.extractfile(image["Layers"][0])) as layer:
            assert [name for name in layer.getnames() if name.startswith("opt/it/")] == [
                "opt/it/.wh.file",
                "opt/it/folder",
                "opt/it/folder/.wh..wh..opq",
                "opt/it/folder/new",
            ]


def build_text(folder: Path, text: str, target: str = "") -> Built:
    """Build a Dockerfile of that text."""
    (folder / "Dockerfile").write_text(dedent(text), encoding="utf-8")
    (folder / ".dockerignore").write_text("*\n!kept\n**/secret\n", encoding="utf-8")
    return build(folder, target)


def test_steps_see_what_those_before_them_made_and_others_get_what_they_copy(tmp_path):
    unique = os.urandom(8).hex()
    (tmp_path / "kept" / "deep").mkdir(parents=True)
    for name in ("kept/a", "kept/deep/b", "kept/deep/secret", "left"):
        (tmp_path / name).write_text(unique, encoding="utf-8")
    built = build_text(
        tmp_path,
        f"""
        ARG BUILD
        FROM ${{BUILD}} AS first
        # a comment
        ARG WORD={unique}
        ENV WHERE=/made
        WORKDIR /made
        COPY kept here
        RUN echo "$WORD" > "$WHERE/said" \\
            # a comment between the lines
            && ln -s said link && rm here/a
        RUN test "$(cat said)" = {unique}

        FROM scratch
        COPY --from=first /made /copied
        """,
    )
    copied = built.layers[0] / "copied"
    assert {str(path.relative_to(copied)) for path in copied.rglob("*") if not path.is_dir()} == {
        "here/deep/b",
        "link",
        "said",
    }
    assert (copied / "link").read_text(encoding="utf-8") == f"{unique}\n"
    with pytest.raises(FileNotFoundError, match="no file matches left"):
        build_text(tmp_path, "FROM ${BUILD}\nCOPY left ./\n")
    with pytest.raises(FileNotFoundError, match="no layer has /nothing"):
        copy_from_layers(built.layers, "/nothing", tmp_path / "target")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("FROM a\nADD b c\n", "ADD is not known", id="instruction"),
        pytest.param("RUN a\n", "RUN before the first FROM", id="no-stage"),
        pytest.param("FROM a\nRUN b \\\n", "the last line ends in a continuation", id="unfinished"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path, text, complaint):
    (tmp_path / "Dockerfile").write_text(text, encoding="utf-8")
    with pytest.raises(DockerfileError, match=complaint):
        read_dockerfile(tmp_path / "Dockerfile")


def test_words_and_variables_are_read_as_a_container_engine_reads_them():
    assert Step("RUN", '["a b", "c"]').words == ["a b", "c"]
    assert list(Step("ENV", 'A="x y" B=$A').pairs) == [("A", "x y"), ("B", "$A")]
    assert expand("${A}-$B-$C", {"A": "1", "B": "2"}) == "1-2-"


def test_every_file_that_the_dockerfile_copies_is_in_the_context():
    context = Context(PROJECT, {})
    for stage in read_dockerfile(PROJECT / "Dockerfile").stages:
        for step in stage.steps:
            if step.word == "COPY" and not step.words[0].startswith("--from"):
                for source in step.words[:-1]:
                    assert context.files(source), source
    assert not [name for name, _, _ in context.files("webhook") if "__pycache__" in name]
