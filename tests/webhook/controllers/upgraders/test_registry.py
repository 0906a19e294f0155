"""Back ends are found by entry points."""

import pytest

from webhook.controllers.upgraders.upgrader import UpgraderError, make_upgraders
from webhook.settings.environment import SettingsError
from webhook.settings.programs import ReconcileSettings


def test_a_back_end_that_is_not_installed_is_named():
    with pytest.raises(UpgraderError, match="there is no upgrader 'magic'"):
        make_upgraders(["magic"], None)


def test_a_back_end_that_cannot_be_loaded_is_named(monkeypatch):
    class Broken:
        def load(self):
            raise ImportError("no such module")

    monkeypatch.setattr("webhook.controllers.upgraders.upgrader.entry_points", lambda **_: [Broken()])
    with pytest.raises(UpgraderError, match="'broken' cannot be loaded: ImportError"):
        make_upgraders(["broken"], None)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        pytest.param(
            {"HARBORMASTER_UPGRADERS": "magic"}, "'magic': must be one of the installed upgraders", id="not-installed"
        ),
        pytest.param({"HARBORMASTER_DEFAULT_UPGRADER": "simulated"}, "must be one of upgraders", id="default"),
        pytest.param({"HARBORMASTER_UPGRADER_POLL_SECONDS": "0"}, "UPGRADER_POLL_SECONDS", id="poll"),
    ],
)
def test_settings_that_name_no_back_end_are_refused(environment, message):
    with pytest.raises(SettingsError, match=message):
        ReconcileSettings.read(environment)
