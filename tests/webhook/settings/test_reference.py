"""The page of all settings is complete, and is the one that is committed."""

import re
from pathlib import Path

from webhook.settings.programs import PROGRAMS
from webhook.settings.reference import page

COMMITTED = Path(__file__).parents[3] / "docs/reference/settings.md"


def row(variable: str) -> list[str]:
    """The cells of a setting's row."""
    (line,) = (line for line in page().splitlines() if line.startswith(f"| `{variable}` |"))
    return line.strip("| ").split(" | ")


def test_the_committed_page_is_the_one_that_is_made():
    assert COMMITTED.read_text(encoding="utf-8") == page(), "make docs"


def test_every_setting_is_described_in_sentences():
    for program in PROGRAMS.values():
        for name, field in program.model_fields.items():
            assert re.fullmatch(r"[A-Z`][^|\n]*[^.]\.", field.description or ""), name


def test_a_row_tells_default_values_and_readers():
    assert row("HARBORMASTER_HTTPS_PORT")[1:4] == ["`9443`", "0 to 65535", "serve, up"]
    assert row("HARBORMASTER_HANDSHAKE_SECONDS")[2] == "seconds, more than 0"
    assert row("HARBORMASTER_ROLLOUT_STALLED_SECONDS")[2] == "seconds, 10 to 604800"
    assert row("HARBORMASTER_API_BODY_BYTES")[1:3] == ["`1048576` (1 MiB)", "bytes, 1 or more"]
    assert row("HARBORMASTER_LOG_FORMAT")[1:3] == ["`json`; `up`: `text`", "`json`, `text`"]
    assert row("HARBORMASTER_GATE_MEMBERS")[1:3] == [
        "`Eviction`, `Upgrade`",
        "list of `Eviction`, `Rollout`, `StagedUpdate`, `Upgrade`",
    ]
    assert row("HARBORMASTER_EXTENDER_DEFAULT_PREFERENCES")[1:3] == ["", "JSON list"]
    assert row("HARBORMASTER_BLOCKED_NAMESPACES")[1:4] == [
        "`kube-*`",
        r"list of at most 100, each like `^[a-z0-9][-a-z0-9]*\*?$`, at most 63 characters",
        "agent",
    ]


def test_what_others_call_their_variables_is_listed_by_that_name():
    assert {row(name)[3] for name in ("NO_COLOR", "TERM", "EDITOR", "HARBORMASTER_SERVER")} == {"cli"}
