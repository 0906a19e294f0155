"""Every setting is shown, and once."""

from collections import Counter

from webhook.settings.groups import GROUPS
from webhook.settings.programs import PROGRAMS


def test_every_setting_is_in_one_room():
    every = {name for program in PROGRAMS.values() for name in program.names()}
    assert Counter(name for room in GROUPS for name in room.names()) == Counter(every)
