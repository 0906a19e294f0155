"""Terminal and editor, by the conventions of other programs."""

import pytest

from webhook.settings.command_line import TerminalSettings


@pytest.mark.parametrize(("environment", "asked"), [({"NO_COLOR": "0"}, True), ({"NO_COLOR": ""}, False), ({}, False)])
def test_any_text_asks_for_no_colours(environment, asked):
    assert bool(TerminalSettings.read(environment).no_color) is asked


def test_a_dumb_terminal_can_only_print():
    assert TerminalSettings.read({"TERM": "dumb"}).can_only_print
    assert not TerminalSettings.read({"TERM": "xterm"}).can_only_print


@pytest.mark.parametrize(
    ("environment", "editor"),
    [
        pytest.param({"KUBE_EDITOR": "nano -w", "EDITOR": "ed"}, "nano -w", id="of-kubectl"),
        pytest.param({"KUBE_EDITOR": "", "EDITOR": "ed"}, "ed", id="of-everything"),
        pytest.param({}, "vi", id="none"),
    ],
)
def test_the_editor_is_that_of_kubectl(environment, editor):
    assert TerminalSettings.read(environment).editor == editor
