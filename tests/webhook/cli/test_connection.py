"""How a client command finds its hub."""

import json
import os
from pathlib import Path

import pytest

from webhook.cli.connection import default_data, find_connection
from webhook.cli.failure import UserError


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        pytest.param({"XDG_STATE_HOME": "/x"}, "/x/harbormaster", id="state-home"),
        pytest.param({"XDG_STATE_HOME": "/x", "HARBORMASTER_DATA": "/d"}, "/d", id="own-variable"),
        pytest.param({"XDG_STATE_HOME": "x"}, None, id="relative-state-home-counts-not"),
    ],
)
def test_default_data_folder(environment, folder, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert str(default_data(environment)) == (folder or "/home/me/.local/state/harbormaster")


def test_what_is_given_outranks_the_data_folder(tmp_path):
    known = {"server": "https://127.0.0.1:1", "token": "known", "ca": "/ca"}
    (tmp_path / "client.json").write_text(json.dumps(known))
    variables = {"HARBORMASTER_SERVER": "https://hub:2/", "HARBORMASTER_DATA": str(tmp_path)}
    found = find_connection(None, None, None, None, variables)
    assert (found.server, found.token, str(found.ca_file)) == ("https://hub:2", "known", "/ca")
    (tmp_path / "token").write_text("given\n")
    found = find_connection(None, "https://hub:3", tmp_path / "token", tmp_path / "ca", {})
    assert (found.server, found.token, found.ca_file) == ("https://hub:3", "given", tmp_path / "ca")


def test_a_data_folder_that_is_named_outranks_the_server_of_the_environment(tmp_path):
    """Else the token of one hub, and what is to be deleted there, goes to another."""
    (tmp_path / "client.json").write_text(json.dumps({"server": "https://127.0.0.1:1", "token": "known"}))
    found = find_connection(tmp_path, None, None, None, {"HARBORMASTER_SERVER": "https://hub:2"})
    assert found.server == "https://127.0.0.1:1"
    assert find_connection(tmp_path, "https://hub:3", None, None, {}).server == "https://hub:3"


@pytest.mark.parametrize("server", ["http://127.0.0.1:8081", "https://hub:9443"])
def test_a_server_without_a_token_needs_one(tmp_path, server):
    with pytest.raises(UserError) as caught:
        find_connection(None, server, None, None, {"HARBORMASTER_DATA": str(tmp_path)})
    words = "a token is missing; name the file it is in: --token-file FILE"
    assert caught.value.lines == (f"--server {server}: {words}",)


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        pytest.param(None, "no such file, so no hub is known; start a hub with: harbormaster up --data", id="missing"),
        pytest.param("{", "is damaged", id="not-json"),
        pytest.param("[]", "is damaged (not an object)", id="no-object"),
        pytest.param('{"server": "ftp://x"}', "--server 'ftp://x': expected a URL such as", id="scheme"),
        pytest.param('{"server": "https://me@x"}', "--server 'https://me@x': expected a URL such as", id="user"),
        pytest.param('{"server": "https://x#y"}', "--server 'https://x#y': expected a URL such as", id="fragment"),
        pytest.param('{"server": "https://x y"}', "--server 'https://x y': expected a URL such as", id="blank"),
        pytest.param('{"server": "https://x:y"}', "--server 'https://x:y': Port could not be cast", id="port"),
        pytest.param('{"server": "http://hub:80"}', "the token is not sent over plain HTTP", id="plain-http"),
    ],
)
def test_a_bad_client_file_is_told_in_one_line(tmp_path, content, mistake):
    if content is not None:
        (tmp_path / "client.json").write_text(content)
    with pytest.raises(UserError) as caught:
        find_connection(tmp_path, None, None, None, {})
    assert mistake in caught.value.lines[0]


@pytest.mark.parametrize("content", [b"", b"two words", b"\xff"])
def test_a_bad_token_file_is_told_in_one_line(tmp_path, content):
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(UserError, match="is not a token"):
        find_connection(tmp_path, "https://hub", tmp_path / "token", None, {})


def test_a_client_file_of_somebody_else_is_not_believed(tmp_path, monkeypatch):
    """In a folder that everybody may write it may name a hub that is sent whatever is applied."""
    (tmp_path / "client.json").write_text(json.dumps({"server": "https://127.0.0.1:9", "token": "t"}))
    assert find_connection(tmp_path, None, None, None, {}).token == "t"
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 4242)
    with pytest.raises(UserError, match=r"client\.json: belongs to "):
        find_connection(tmp_path, None, None, None, {})


@pytest.mark.parametrize("named", [True, False])
def test_the_token_of_a_folder_is_not_sent_to_whom_another_authority_vouches_for(tmp_path, named):
    known = {"server": "https://127.0.0.1:1", "token": "known", "ca": "/ca"}
    (tmp_path / "client.json").write_text(json.dumps(known))
    data, variables = (tmp_path, {}) if named else (None, {"HARBORMASTER_DATA": str(tmp_path)})
    with pytest.raises(
        UserError, match=r"hub:2: a token is missing, the one in .* is for https://127\.0\.0\.1:1; name"
    ):
        find_connection(data, "https://hub:2", None, tmp_path / "other", variables)
    for server, authority in (("https://127.0.0.1:1/", tmp_path / "other"), ("https://hub:2", Path("/ca"))):
        assert find_connection(data, server, None, authority, variables).token == "known"
