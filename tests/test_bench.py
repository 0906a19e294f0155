"""Which benchmarks ``make bench`` runs."""

import pytest

from tests.bench.__main__ import PARTS, WHEN_NAMED, says, wanted


def test_each_part_is_measured_once_and_says_what_it_measures():
    assert wanted([]) == list(PARTS)
    assert len(set(PARTS)) == len(PARTS)
    assert [part for part in (*PARTS, *WHEN_NAMED) if not says(part)] == []


def test_parts_are_named(capsys):
    assert wanted(["page", "hub", "page"]) == ["page", "hub"]
    with pytest.raises(SystemExit) as ended:
        wanted(["pages"])
    assert ended.value.code == 2
    assert "there is no part pages; there are engine, admission," in capsys.readouterr().err


def test_help_lists_the_parts_and_measures_nothing(capsys):
    with pytest.raises(SystemExit) as ended:
        wanted(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert [part for part in (*PARTS, *WHEN_NAMED) if f"\n  {part} " not in shown] == []
