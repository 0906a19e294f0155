"""Nothing that users copy or run installs foreign code by a name that can come to mean other code."""

import re
import tomllib

import pytest

from tests.docs.pages import ROOT

LOCKS = tuple(ROOT.glob("requirements*.txt"))
LOCKED = {
    line.partition("==")[0].partition("[")[0]
    for lock in LOCKS
    for line in lock.read_text().splitlines()
    if "==" in line
}
INSTALLER = re.compile(
    r"\b(?:pip[0-9.]*|pipx|uv tool)\b(?!-)[^|;&`\n]*?\binstall\b(?P<install>[^|;&`\n#]*)"
    r"|\b(?:uvx|pipx run|uv tool run)\s+(?P<run>[^\s|;&`]+)"
)
FROM_ELSEWHERE = re.compile(r"[./$*]|git\+|\.whl")
"""A path, a variable, a reference to a repository, a wheel."""
TAKES_A_VALUE = {"-r", "--requirement", "-c", "--constraint", "--python", "--target", "--directory", "-t", "-i"}
SUFFIXES = (".md", ".yml", ".yaml", ".1", ".sh")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")


def installed_names(text):
    """Yield the distributions that the commands in *text* install by name."""
    for found in INSTALLER.finditer(text.replace("\\\n", " ")):
        words = iter(
            (found["install"] or found["run"] or "").replace('"', " ").replace("'", " ").replace("\\", " ").split()
        )
        for word in words:
            if word in TAKES_A_VALUE:
                next(words, None)
            elif not FROM_ELSEWHERE.search(word.partition("[")[0].partition("==")[0]) and (name := NAME.match(word)):
                yield name[0]


def shipped_texts():
    """Return the files that people read or run, by their paths, but for the code and its tests."""
    folders = ("certs", "charts", "docs", "examples", "scorer", "webhook", ".ci", ".github")
    patterns = ("*.md", "*.yml", "*.yaml", "Makefile", "Dockerfile")
    files = {path for pattern in patterns for path in ROOT.glob(pattern)}
    files |= {path for name in folders for path in (ROOT / name).rglob("*")}
    names = sorted(str(path.relative_to(ROOT)) for path in files if path.is_file())
    kept = (name for name in names if not name.startswith("docs/specifications/"))
    return [name for name in kept if name.endswith(SUFFIXES) or "." not in name.rpartition("/")[2]]


@pytest.mark.parametrize(
    ("command", "names"),
    [
        pytest.param("pip install harbormaster", ["harbormaster"], id="pip"),
        pytest.param("python3 -m pip install --quiet 'harbormaster[otel]==1'", ["harbormaster"], id="extra"),
        pytest.param('"${pip[@]}" install "harbormaster==$VERSION"', ["harbormaster"], id="variable-version"),
        pytest.param("pipx run harbormaster lint", ["harbormaster"], id="pipx-run"),
        pytest.param("uvx harbormaster lint", ["harbormaster"], id="uvx"),
        pytest.param("uv tool install -q harbormaster-fleet", ["harbormaster-fleet"], id="uv-tool"),
        pytest.param("pip install .  # in a checkout", [], id="checkout"),
        pytest.param("pip install --require-hashes -r requirements.txt ./dist/x.whl", [], id="files"),
        pytest.param("pip install git+https://example.com/harbormaster@v1", [], id="reference"),
    ],
)
def test_what_a_command_installs(command, names):
    assert list(installed_names(command)) == names


@pytest.mark.parametrize("name", shipped_texts())
def test_only_locked_distributions_are_installed_by_name(name):
    """Ours is on no index yet: until it is, a stranger could publish under its name."""
    assert set(installed_names((ROOT / name).read_text(encoding="utf-8", errors="replace"))) <= LOCKED


def test_the_action_installs_itself_or_a_wheel():
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert '"${pip[@]}" --no-deps --no-build-isolation "${WHEEL:-$ACTION}"' in text
    assert "==" not in "".join(line for line in text.splitlines() if "pip" in line)


USES = re.compile(
    r"""(?:^|[\s{,"'-])uses["']?\s*:\s*["']?(?P<action>[^\s"'#,}/]+/[^\s"'#,}]+)|(?P<image>\bdocker://[^\s"'#]+)"""
)
PINNED = re.compile(r"[\w./-]+@[0-9a-f]{40}|docker://[\w./:-]+@sha256:[0-9a-f]{64}")
OURS = re.compile(r"\./\S*|OWNER/harbormaster@REVISION")
"""A local action, and this one as documents name it."""


def unpinned_actions(text):
    """Return the foreign actions and images in *text* that a tag or a branch names, which can be moved."""
    used = [found["action"] or found["image"] for found in USES.finditer(text)]
    return [each for each in used if not (PINNED.fullmatch(each) or OURS.fullmatch(each))]


@pytest.mark.parametrize(
    ("line", "is_pinned"),
    [
        pytest.param(f"- uses: actions/checkout@{'0a' * 20}  # v5.0.1", True, id="commit"),
        pytest.param(f"    uses: 'github/codeql-action/upload-sarif@{'0a' * 20}'", True, id="quoted"),
        pytest.param("- uses: actions/checkout@v5", False, id="tag"),
        pytest.param('- "uses" : "actions/checkout@main"', False, id="branch"),
        pytest.param("- uses: actions/checkout", False, id="nothing"),
        pytest.param(f"- uses: actions/checkout@{'0a' * 4}", False, id="short-commit"),
        pytest.param("steps: [{uses: actions/checkout@v5, id: a}]", False, id="flow"),
        pytest.param("- uses: docker://alpine:3.20", False, id="image-tag"),
        pytest.param(f"- uses: docker://alpine@sha256:{'0' * 64}", True, id="image-digest"),
        pytest.param("- uses: ./.github/actions/build", True, id="local"),
        pytest.param("- uses: OWNER/harbormaster@REVISION", True, id="ours-in-documents"),
        pytest.param("- uses: stranger/harbormaster@main", False, id="a-strangers"),
        pytest.param("Two real uses: checking and linting", True, id="prose"),
    ],
)
def test_which_actions_are_pinned(line, is_pinned):
    assert (not unpinned_actions(line)) == is_pinned


@pytest.mark.parametrize("name", shipped_texts())
def test_foreign_actions_are_named_by_their_commit(name):
    assert unpinned_actions((ROOT / name).read_text(encoding="utf-8", errors="replace")) == []


def test_our_distribution_does_not_have_the_name_of_a_strangers():
    assert (
        tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"] == "harbormaster-fleet"
    )
