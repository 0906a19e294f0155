"""Whose data folder `up` uses: the token in it lets in, and what is read from it is believed."""

import os
import re

import pytest

from tests.webhook.services import LISTENERS
from webhook.processes.data_folder import DataFolderError
from webhook.processes.up import Up
from webhook.settings.programs import UpSettings


async def refusal(folder, **settings) -> str:
    """Why a hub does not start on a folder; empty when it does."""
    try:
        async with Up(UpSettings(**LISTENERS, **settings), folder):
            return ""
    except DataFolderError as error:
        return str(error)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777, 0o702])
async def test_a_folder_that_others_can_write_is_refused(tmp_path, mode):
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(mode)
    why = await refusal(folder)
    assert str(folder) in why
    assert f"chmod go-w {folder}" in why
    assert list(folder.iterdir()) == []
    folder.chmod(0o750)
    assert await refusal(folder) == ""


@pytest.mark.parametrize("mode", [0o666, 0o620, 0o644, 0o604])
@pytest.mark.parametrize("name", ["token", "hook-secret"])
async def test_a_secret_that_others_can_read_or_write_is_refused(tmp_path, name, mode):
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    token = folder / name
    token.write_text("known-to-everybody" * 2)
    token.chmod(mode)
    why = await refusal(folder)
    assert f"chmod go-rw {token}" in why
    assert "known-to-everybody" not in why
    token.chmod(0o600)
    assert await refusal(folder) == ""


async def test_a_token_that_is_somewhere_else_is_refused(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    elsewhere = tmp_path / "token"
    elsewhere.write_text("known")
    elsewhere.chmod(0o600)
    (folder / "token").symlink_to(elsewhere)
    assert re.search(r"data/token is not a regular file.*Remove it", await refusal(folder))


async def test_a_folder_below_one_where_others_can_put_another_in_its_place_is_refused(tmp_path):
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    assert str(open_to_all) in await refusal(open_to_all / "data")
    open_to_all.chmod(0o1777)  # as /tmp: what is there can only be moved by its owner
    assert await refusal(open_to_all / "data") == ""


async def test_a_link_of_ones_own_is_followed(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "data").symlink_to(tmp_path / "real")
    assert await refusal(tmp_path / "data") == ""
    (tmp_path / "real").chmod(0o770)
    assert str(tmp_path / "real") in await refusal(tmp_path / "data")


async def test_a_folder_of_somebody_else_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 4242)
    why = await refusal(folder)
    assert "belongs to" in why
    assert "--data" in why
    assert list(folder.iterdir()) == []


async def test_a_token_that_a_former_release_has_left_is_removed(tmp_path):
    (tmp_path / "client.json").write_text('{"token": "t"}')
    assert await refusal(tmp_path) == ""
    assert not (tmp_path / "client.json").exists()


async def test_a_folder_that_is_called_like_a_former_token_is_named(tmp_path):
    (tmp_path / "client.json").mkdir()
    assert re.search(r"client\.json: .*\. Remove it", await refusal(tmp_path))


@pytest.mark.parametrize("name", ["token", "hook-secret", "ca.crt", "kubeconfig"])
async def test_a_disk_that_is_full_is_named_by_the_file(tmp_path, name):
    """What is written first to such a file here ends on a full disk."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    passing = folder / f".{name}.{os.getpid()}"
    passing.symlink_to("/dev/full")
    why = await refusal(folder)
    assert why == (
        f"data folder {folder}: cannot write {folder / name}: No space left on device. "
        "Choose another data folder with --data"
    )
    assert not passing.is_symlink()
    assert await refusal(folder) == "", "it starts as soon as there is space"
