"""The image that the Dockerfile describes: what is in it, whose it is, and what its build refuses."""

import json
import os
import re
import stat
from pathlib import Path
from textwrap import dedent

import pytest

from e2e.image.build import DIGEST, BuildError, Built, build, image_of
from e2e.image.dockerfile import DockerfileError, Step, expand, read_dockerfile
from e2e.image.layers import Context, copy_from_layers
from e2e.kubelet.images import PROJECT

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
    with pytest.raises(FileNotFoundError, match="nothing is at left"):
        build_text(tmp_path, "FROM ${BUILD}\nCOPY left ./\n")
    with pytest.raises(FileNotFoundError, match="no layer has /nothing"):
        copy_from_layers(built.layers, "/nothing", tmp_path / "target")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("FROM a\nADD b c\n", "ADD is not known", id="instruction"),
        pytest.param("RUN a\n", "RUN before the first FROM", id="no-stage"),
        pytest.param("FROM a\nRUN b \\\n", "the last line goes on", id="unfinished"),
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
