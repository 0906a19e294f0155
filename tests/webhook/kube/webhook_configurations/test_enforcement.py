"""What is reported of webhook configurations that a client has deleted or opened."""

import pytest

from webhook.kube.webhook_configurations.ca_bundles import Registered
from webhook.kube.webhook_configurations.enforcement import INSTALLING_SECONDS, EnforcementMonitor

VALIDATING, MUTATING = "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"
CLOSED = {VALIDATING: frozenset({"a", "b"}), MUTATING: frozenset()}


class Bed:
    """A replica that has just started, its clock and what it records."""

    def __init__(self, *, expected=False, repairs=False):
        self.now = 0.0
        self.events = []
        self.notes = []
        self.closed = []
        self.enforcement = EnforcementMonitor(
            "hooks",
            CLOSED,
            self._record,
            expected=expected,
            close=self._close if repairs else None,
            clock=lambda: self.now,
        )

    async def _close(self, kind, registered, names):
        self.closed.append((kind, names))

    def _record(self, about, event):
        self.events.append((about["kind"], event.reason, event.type))
        self.notes.append(event.message)

    async def note(self, **policies):
        """Note configurations by the words validating and mutating: failurePolicy by name of a hook."""
        kinds = {"validating": VALIDATING, "mutating": MUTATING}
        await self.enforcement.note({kinds[word]: registered(hooks) for word, hooks in policies.items()})


def registered(policies):
    hooks = [{"name": name, "failurePolicy": policy} for name, policy in policies.items()]
    return Registered({"webhooks": hooks}, {})


WELL = {"validating": {"a": "Fail", "b": "Fail", "c": "Ignore"}, "mutating": {"d": "Ignore"}}


async def test_what_this_release_registers_is_well():
    bed = Bed(expected=True)
    await bed.note(**WELL)
    assert bed.events == []
    assert bed.enforcement.enforced() == {VALIDATING: True, MUTATING: True}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param({"mutating": {"d": "Ignore"}}, "WebhookConfigurationMissing", id="deleted"),
        pytest.param({**WELL, "validating": {}}, "WebhookConfigurationMissing", id="without-hooks"),
        pytest.param({**WELL, "validating": {"a": "Fail", "b": "Ignore"}}, "WebhooksFailOpen", id="one-hook-opened"),
    ],
)
async def test_a_break_is_reported_once_and_so_is_its_end(found, reason):
    bed = Bed()
    await bed.note(**WELL)
    await bed.note(**found)
    await bed.note(**found)
    assert bed.events == [(VALIDATING, reason, "Warning")]
    assert bed.enforcement.enforced() == {VALIDATING: False, MUTATING: True}
    await bed.note(**WELL)
    assert bed.events[1:] == [(VALIDATING, "WebhooksEnforced", "Normal")]
    assert bed.enforcement.enforced()[VALIDATING]


async def test_a_configuration_that_was_never_seen_is_missed_where_it_is_expected_after_an_installation():
    bed = Bed(expected=True)
    await bed.note()
    assert bed.events == []
    bed.now += INSTALLING_SECONDS
    await bed.note(mutating={"d": "Ignore"})
    assert bed.events == [(VALIDATING, "WebhookConfigurationMissing", "Warning")]


async def test_a_server_that_no_hub_is_meant_to_ask_misses_nothing():
    bed = Bed()
    bed.now += INSTALLING_SECONDS
    await bed.note()
    assert bed.events == []
    assert bed.enforcement.enforced() == {}


async def test_open_hooks_are_closed_where_the_settings_say_so():
    bed = Bed(repairs=True)
    await bed.note(**WELL)
    assert bed.closed == []
    await bed.note(**{**WELL, "validating": {"a": "Ignore", "b": "Fail", "c": "Ignore"}})
    assert bed.closed == [(VALIDATING, ["a"])]
    assert bed.events == [(VALIDATING, "WebhooksFailOpen", "Warning")]


@pytest.mark.parametrize(
    ("opened", "words"),
    [
        pytest.param({"a": "Ignore", "b": "Fail"}, "1 hook with failurePolicy Ignore", id="one"),
        pytest.param({"a": "Ignore", "b": "Ignore"}, "2 hooks with failurePolicy Ignore", id="two"),
    ],
)
async def test_opened_hooks_are_counted(opened, words):
    bed = Bed(expected=True)
    await bed.note(**{**WELL, "validating": opened})
    assert words in bed.notes[0]
