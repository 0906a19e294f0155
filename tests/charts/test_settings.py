"""Every setting of a program that a chart runs is a value, or the chart decides it."""

import pytest

from tests.charts.settings import AGENT_PROGRAMS, HUB_PROGRAMS, OF_THE_CHART, camel, settings_of
from webhook.settings.programs import PROGRAMS


@pytest.mark.parametrize("programs", [HUB_PROGRAMS, AGENT_PROGRAMS], ids=" ".join)
def test_every_setting_is_a_value_or_decided_by_the_chart(programs):
    read = {name for program in programs for name in PROGRAMS[program].names()} - OF_THE_CHART
    assert set(settings_of(programs)) == {camel(name) for name in read}


def test_a_setting_means_the_same_to_all_programs_of_a_chart():
    """One value cannot have two defaults or two schemas."""
    serve, reconcile = (settings_of((program,)) for program in HUB_PROGRAMS)
    differing = [name for name in serve.keys() & reconcile.keys() if serve[name] != reconcile[name]]
    assert differing == []


def test_the_charts_decide_nothing_that_is_no_setting():
    read = {name for program in (*HUB_PROGRAMS, *AGENT_PROGRAMS) for name in PROGRAMS[program].names()}
    assert sorted(OF_THE_CHART - read) == []
