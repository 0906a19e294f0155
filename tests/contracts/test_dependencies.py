"""What is installed: few libraries, each argued for, and each file of them known by its hash."""

import re
import tomllib

import pytest

from tests.contracts.sources import ROOT

RUNTIME = {
    "aiohttp",
    "click",
    "croniter",
    "cryptography",
    "kubernetes-asyncio",
    "numpy",
    "orjson",
    "prometheus-client",
    "pydantic",
    "pyjwt",
    "pyyaml",
    "rich",
    "typing-extensions",
    "tzdata",
    "urllib3",
    "uvloop",
    "yarl",
}
"""What the programs need. One more is argued for in the commit that adds it here."""
LOCKS = sorted(path.name for path in ROOT.glob("requirements*.txt"))
PINNED = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+( ; .+)?")


def name_of(requirement):
    return re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower().replace("_", "-")


def entries(lock):
    """The requirements of a lock file, each with its options."""
    text = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", " ")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def test_the_programs_need_these_libraries_and_no_others():
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    assert {name_of(each) for each in project["dependencies"]} == RUNTIME
    assert {name_of(each) for each in entries("requirements.txt")} >= RUNTIME


@pytest.mark.parametrize("lock", LOCKS)
def test_whatever_is_installed_is_known_by_its_hash(lock):
    """And comes from the registry that the installer is told to use, by its name."""
    assert entries(lock)
    for entry in entries(lock):
        requirement, *hashes = (part.strip() for part in entry.split("--hash="))
        assert PINNED.fullmatch(requirement), requirement
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), requirement
