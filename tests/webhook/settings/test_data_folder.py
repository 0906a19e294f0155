"""The data folder: what names it, in which order."""

from pathlib import Path

import pytest

from webhook.settings.command_line import DataSettings


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        pytest.param({"HARBORMASTER_DATA": "/d", "XDG_STATE_HOME": "/x"}, "/d", id="own-variable"),
        pytest.param({"XDG_STATE_HOME": "/x"}, "/x/harbormaster", id="state-of-programs"),
        pytest.param({"XDG_STATE_HOME": "x"}, "/home/ada/.local/state/harbormaster", id="no-absolute-path"),
        pytest.param({"HARBORMASTER_DATA": ""}, "/home/ada/.local/state/harbormaster", id="empty"),
    ],
)
def test_the_folder_is_found(environment, folder, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    assert DataSettings.read(environment).data == Path(folder)


def test_an_option_wins():
    assert DataSettings.read({"HARBORMASTER_DATA": "/d"}, data=Path("/o")).data == Path("/o")
