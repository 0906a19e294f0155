"""The variables that commands read without settings: the same as the settings that describe them."""

import pytest

from webhook.settings.command_line import CommandLineSettings
from webhook.settings.variables import CommandVariables


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"HARBORMASTER_SERVER": "https://a", "HARBORMASTER_DATA": "/d"}, id="ours"),
        pytest.param({"HARBORMASTER_DATA": "", "XDG_STATE_HOME": "/x"}, id="state-of-programs"),
        pytest.param({"XDG_STATE_HOME": "x"}, id="no-absolute-path"),
        pytest.param({"KUBECONFIG": "a::/b"}, id="kubeconfigs"),
        pytest.param({"KUBECONFIG": "", "TERM": "dumb"}, id="dumb-terminal"),
        pytest.param({"TERM": "xterm"}, id="terminal"),
    ],
)
def test_they_are_what_the_settings_say(environment, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    found, described = CommandVariables.read(environment), CommandLineSettings.read(environment)
    assert (found.server, found.data) == (described.server, described.data)
    assert (found.kubeconfigs, found.can_only_print) == (described.kubeconfigs, described.can_only_print)
