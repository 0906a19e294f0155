"""What `make audit` makes of what databases of advisories say, and of what they do not say."""

import json

import pytest

from tests.advisories import Report, UnreachableError, audit, first_of, read_report

LOCK = "click==8.5.1 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\nrich==15.0 \\\n    --hash=sha256:cc\n"
CLEAN = {"name": "click", "version": "8.5.1", "vulns": []}
BROKEN = {
    "name": "rich",
    "version": "15.0",
    "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["15.1"], "description": "long"}],
}
UNKNOWN = {"name": "rich", "skip_reason": "Dependency not found"}


@pytest.fixture
def locks(tmp_path):
    for name in ("requirements.txt", "requirements-dev.txt"):
        (tmp_path / name).write_text(LOCK, encoding="utf-8")
    return list(tmp_path.glob("*.txt"))


def report(*packages):
    return read_report(json.dumps({"dependencies": packages, "fixes": []}))


def run(locks, **databases):
    """Audit with databases that say the same of every file; None: one that does not answer."""
    said, asked = [], []

    def ask(database, lock):
        asked.append((database, lock.name))
        answer = databases.get(database)
        if answer is None:
            raise UnreachableError("no such host")
        return answer

    return audit(locks, ask, said.append), "\n".join(said), asked


def test_what_nobody_warns_of_is_fine(locks):
    code, said, _ = run(locks, osv=report(CLEAN))
    assert code == 0
    assert "requirements-dev.txt: 1 packages compared with osv" in said
    assert said.endswith("no advisory is known for any of them")


def test_an_advisory_is_named_once_with_what_mends_it(locks):
    code, said, _ = run(locks, osv=report(CLEAN, BROKEN))
    assert code == 1
    assert said.count("rich 15.0: PYSEC-1, CVE-1; mended in 15.1") == 1


def test_where_nobody_answers_nothing_is_said_to_be_fine(locks):
    code, said, asked = run(locks)
    assert code == 2
    assert said.splitlines()[-1].startswith("NOT CHECKED: ")
    assert "no advisory is known" not in said
    assert len(asked) == 2, "each database is asked about one package, and not about hundreds"


def test_a_database_that_knows_no_package_is_none(locks):
    """As a mirror of a registry answers: pip-audit itself finds no vulnerabilities there."""
    code, said, _ = run(locks, pypi=report(UNKNOWN))
    assert code == 2
    assert "pypi: cannot be asked: it does not know rich: Dependency not found" in said


def test_the_next_database_is_asked(locks):
    code, said, asked = run(locks, pypi=report(CLEAN))
    assert code == 0
    assert "osv: cannot be asked: no such host" in said
    assert asked[0][0] == "osv"


def test_a_package_that_is_not_known_is_not_said_to_be_fine(locks):
    code, said, _ = run(locks, osv=report(CLEAN, UNKNOWN))
    assert code == 2
    assert "NOT CHECKED: rich: Dependency not found" in said
    assert run(locks, osv=report(BROKEN, UNKNOWN))[0] == 1


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "{}"])
def test_what_is_no_report_is_no_answer(text):
    with pytest.raises(UnreachableError, match="no report"):
        read_report(text)


def test_one_requirement_is_enough_to_ask(locks):
    assert first_of(locks[0]) == LOCK.partition("rich")[0]


def test_a_report_of_nothing_knows_nothing():
    assert report() == Report((), (), ())
