"""What the init container of the scheduler finds out, from a real extender, and how the chart has it ask."""

import asyncio
import importlib.util
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio

from certs.authority import Authority
from tests.charts.made import HUB
from tests.scorer.builders import NOW
from tests.vector_families.extender import running

pytestmark = pytest.mark.asyncio(loop_scope="module")
FLEET = {"now": NOW.isoformat()}
_SPEC = importlib.util.spec_from_file_location("ask_extender", HUB / "files/ask_extender.py")
asking = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(asking)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers():
    """One that answers anybody, and one that wants credentials."""
    async with running(FLEET) as easy, running(FLEET, extender_allow_anonymous=False) as strict:
        yield {"easy": easy, "strict": strict}


async def ask(monkeypatch, capsys, *words):
    """Run the program without its pauses, with two attempts; return its exit code and what it has written."""
    monkeypatch.setattr(asking, "ATTEMPTS", 2)
    monkeypatch.setattr(asking, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(sys, "argv", ["ask_extender.py", *map(str, words)])
    code = await asyncio.to_thread(asking.main)
    return code, capsys.readouterr().out


def folder_of(server, tmp_path: Path) -> Path:
    (tmp_path / "ca.crt").write_bytes(server.server.certificates.trust_pem)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "path", "code", "said"),
    [
        pytest.param("easy", "/extender/v1", 0, "the extender answers the scheduler", id="answered"),
        pytest.param("strict", "/extender/v1", 1, "401: the extender does not know the scheduler", id="unknown"),
        pytest.param("easy", "/extender/v2", 1, "404: no extender at this address", id="elsewhere"),
        pytest.param("easy", "/v1", 1, "40", id="another-surface"),
    ],
)
async def test_an_answer_passes_and_a_refusal_fails_with_its_cause(
    servers, monkeypatch, capsys, tmp_path, name, path, code, said
):
    server = servers[name]
    url = f"{server.server.addresses.https_url}{path}"
    found, text = await ask(monkeypatch, capsys, url, folder_of(server, tmp_path))
    assert (found, said in text) == (code, True), text


async def test_another_authority_is_told(servers, monkeypatch, capsys, tmp_path):
    (tmp_path / "ca.crt").write_bytes(Authority.new(datetime.now(UTC)).pem)
    url = f"{servers['easy'].server.addresses.https_url}/extender/v1"
    found, text = await ask(monkeypatch, capsys, url, tmp_path)
    assert (found, asking.DISTRUST in text) == (1, True), text


async def test_a_server_that_does_not_answer_is_asked_again_and_then_named(servers, monkeypatch, capsys, tmp_path):
    folder = folder_of(servers["easy"], tmp_path)
    pauses = []
    monkeypatch.setattr(asking.time, "sleep", pauses.append)
    found, text = await ask(monkeypatch, capsys, "https://127.0.0.1:1/extender/v1", folder)
    assert (found, len(pauses)) == (1, 1)
    assert "no answer" in text
    assert "harbormaster doctor" in text


@pytest.mark.parametrize("words", [("none",), ("", "none")], ids=["authority", "certificate"])
async def test_a_file_that_is_not_there_is_named(servers, monkeypatch, capsys, tmp_path, words):
    folder = folder_of(servers["easy"], tmp_path)
    found, text = await ask(monkeypatch, capsys, "https://127.0.0.1:1", *(folder / word for word in words))
    assert found == 1
    assert str(tmp_path / "none") in text
