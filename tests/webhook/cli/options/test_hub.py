"""How a client command finds its hub."""

import os
from pathlib import Path

import pytest
import yaml

from webhook.cli.errors import UserError
from webhook.cli.options.hub import HubOptions, default_data
from webhook.processes.hub_kubeconfig import hub_kubeconfig


def known(folder, server="https://127.0.0.1:1", ca="/ca"):
    """Write what ``up`` leaves for clients; its token is ``known``."""
    (folder / "kubeconfig").write_text(hub_kubeconfig(server, "known", Path(ca), ""))


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
    known(tmp_path)
    variables = {"HARBORMASTER_SERVER": "https://hub:2/", "HARBORMASTER_DATA": str(tmp_path)}
    found = HubOptions().find(variables)
    assert (found.server, found.token, str(found.ca_file)) == ("https://hub:2", "known", "/ca")
    (tmp_path / "token").write_text("given\n")
    found = HubOptions(server="https://hub:3", token_file=tmp_path / "token", ca_file=tmp_path / "ca").find({})
    assert (found.server, found.token, found.ca_file) == ("https://hub:3", "given", tmp_path / "ca")


def test_a_data_folder_that_is_named_outranks_the_server_of_the_environment(tmp_path):
    """Else the token of one hub, and what is to be deleted there, goes to another."""
    known(tmp_path)
    found = HubOptions(data=tmp_path).find({"HARBORMASTER_SERVER": "https://hub:2"})
    assert found.server == "https://127.0.0.1:1"
    assert HubOptions(data=tmp_path, server="https://hub:3").find({}).server == "https://hub:3"


@pytest.mark.parametrize("server", ["http://127.0.0.1:8081", "https://hub:9443"])
def test_a_server_without_a_token_needs_one(tmp_path, server):
    with pytest.raises(UserError) as caught:
        HubOptions(server=server).find({"HARBORMASTER_DATA": str(tmp_path)})
    words = "a token is required: give its file with --token-file FILE"
    assert caught.value.lines == (f"--server {server}: {words}",)


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        pytest.param(
            None,
            "no such file, so there is no hub to connect to. Start a hub with: harbormaster up --data",
            id="missing",
        ),
        pytest.param("{", "is not YAML: ", id="not-yaml"),
        pytest.param(
            "[]",
            "must be an object with clusters, users and contexts. Start a hub with: harbormaster up --data",
            id="no-object",
        ),
        pytest.param("{}", "has no current context", id="empty"),
        pytest.param("{}".ljust(2**20 + 1), "larger than 1048576 bytes", id="too-large"),
    ],
)
def test_a_bad_kubeconfig_is_told_in_one_line(tmp_path, content, mistake):
    if content is not None:
        (tmp_path / "kubeconfig").write_text(content)
    with pytest.raises(UserError) as caught:
        HubOptions(data=tmp_path).find({})
    assert len(caught.value.lines) == 1
    assert "kubeconfig: " in caught.value.lines[0]
    assert mistake in caught.value.lines[0]


@pytest.mark.parametrize("lost", ["extensions", "token"])
def test_a_kubeconfig_that_up_has_not_written_is_refused(tmp_path, lost):
    """A hub that others run may know no questions, and what lets in there may be more than a token."""
    known(tmp_path)
    document = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    for part in (document["clusters"][0]["cluster"], document["users"][0]["user"]):
        part.pop(lost, None)
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(document))
    with pytest.raises(UserError, match=r"kubeconfig: does not belong to harbormaster up\. Start a hub with"):
        HubOptions(data=tmp_path).find({})


@pytest.mark.parametrize(
    ("server", "mistake"),
    [
        pytest.param("ftp://x", "--server 'ftp://x': expected a URL such as", id="scheme"),
        pytest.param("https://me@x", "--server 'https://me@x': expected a URL such as", id="user"),
        pytest.param("https://x#y", "--server 'https://x#y': expected a URL such as", id="fragment"),
        pytest.param("https://x y", "--server 'https://x y': expected a URL such as", id="blank"),
        pytest.param("https://x:y", "--server 'https://x:y': Port could not be cast", id="port"),
        pytest.param("http://hub:80", "the token is not sent over plain HTTP", id="plain-http"),
    ],
)
@pytest.mark.parametrize("by_option", [False, True], ids=["folder", "option"])
def test_a_server_that_cannot_be_asked_is_told_in_one_line(tmp_path, server, mistake, by_option):
    known(tmp_path, "https://127.0.0.1:1" if by_option else server)
    with pytest.raises(UserError) as caught:
        HubOptions(data=tmp_path, server=server if by_option else None).find({})
    assert mistake in caught.value.lines[0]


def test_what_kubectl_makes_of_the_kubeconfig_is_read(tmp_path):
    """``kubectl config set-context --current --namespace shop`` writes paths anew, from where the file is."""
    known(tmp_path, ca=tmp_path / "ca.crt")
    document = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    document["clusters"][0]["cluster"]["certificate-authority"] = "ca.crt"
    document["contexts"][0]["context"]["namespace"] = "shop"
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(document))
    found = HubOptions(data=tmp_path).find({})
    assert (found.ca_file, found.namespace) == (tmp_path / "ca.crt", "shop")


@pytest.mark.parametrize("content", [b"", b"two words", b"\xff"])
def test_a_bad_token_file_is_told_in_one_line(tmp_path, content):
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(UserError, match="must contain only a token"):
        HubOptions(data=tmp_path, server="https://hub", token_file=tmp_path / "token").find({})


def test_a_token_file_without_end_is_told_in_one_line(tmp_path):
    with pytest.raises(UserError, match="--token-file /dev/zero: larger than 1048576 bytes"):
        HubOptions(data=tmp_path, server="https://hub", token_file=Path("/dev/zero")).find({})


def test_a_kubeconfig_of_somebody_else_is_not_believed(tmp_path, monkeypatch):
    """In a folder that everybody may write it may name a hub that is sent whatever is applied."""
    known(tmp_path)
    assert HubOptions(data=tmp_path).find({}).token == "known"
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 4242)
    with pytest.raises(UserError, match=r"kubeconfig: belongs to "):
        HubOptions(data=tmp_path).find({})


@pytest.mark.parametrize("named", [True, False])
def test_the_token_of_a_folder_is_not_sent_to_whom_another_authority_vouches_for(tmp_path, named):
    known(tmp_path)
    data, variables = (tmp_path, {}) if named else (None, {"HARBORMASTER_DATA": str(tmp_path)})
    with pytest.raises(
        UserError, match=r"hub:2: a token is required, and the one in .* is for https://127\.0\.0\.1:1. Give"
    ):
        HubOptions(data=data, server="https://hub:2", ca_file=tmp_path / "other").find(variables)
    for server, authority in (("https://127.0.0.1:1/", tmp_path / "other"), ("https://hub:2", Path("/ca"))):
        assert HubOptions(data=data, server=server, ca_file=authority).find(variables).token == "known"


def test_a_token_is_shown_by_no_traceback(tmp_path):
    known(tmp_path)
    assert "known" not in repr(HubOptions(data=tmp_path).find({}))
