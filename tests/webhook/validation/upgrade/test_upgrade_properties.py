"""What holds for every upgrade object, also for those nobody thought of."""

from copy import deepcopy
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.thoroughness import examples
from tests.webhook.validation.upgrade_objects import (
    ALICE,
    AT_NIGHT,
    FULL,
    make_gate,
    make_request,
    make_run,
    make_strategy,
    make_window,
)
from webhook.admission.judge import judge, mutate
from webhook.admission.patch import apply_patch
from webhook.defaulting.defaulted import DefaultingContext

REQUEST = DefaultingContext(datetime(2025, 1, 6, tzinfo=UTC), "a-request")
STAGE = {
    "name": "s",
    "memberSelector": {"matchLabels": {"env": "prod"}},
    "maxConcurrency": "25%",
    "afterStageWaitSeconds": 60,
    "beforeGates": [{"type": "ScheduledStart", "scheduledStart": AT_NIGHT}],
    "groups": [{"name": "g", "maxConcurrency": 2, "maxAllowedFailures": "1", "afterGates": [{"type": "Approval"}]}],
}
WHOLE = [
    make_strategy(STAGE, {**STAGE, "name": "t", "groups": [{"name": "h"}]}),
    make_run(
        "Stopped",
        state="Stop",
        restartToken="first",
        strategy={"stages": [STAGE]},
        upgrade={**FULL, "nodeImage": {"selection": "Custom", "customVersions": [{"family": "f", "version": "1"}]}},
        skipTargets=[{"type": "Member", "name": "a"}],
        timeouts={"memberUpgradeSeconds": 600},
    ),
    make_window(
        schedule={"weekly": {"intervalWeeks": 2, "dayOfWeek": "Monday"}},
        utcOffset="+02:00",
        notAllowedDates=[{"start": "2025-12-20", "end": "2025-12-24"}],
    ),
    make_gate("Pending", "True"),
    make_request("InProgress"),
]
LEAVES = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        2,
        51,
        2**70,
        1.5,
        "",
        "2",
        "0%",
        "v1.31",
        "Stop",
        "Run",
        "Custom",
        "2025-01-06",
        "Completed",
        "x" * 70,
    ]
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("a"), inner), max_leaves=4
)


def positions(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from positions(item, (*path, key))


@st.composite
def damaged(draw, document):
    """Draw the document with up to three parts of its spec or status replaced or removed."""
    document = deepcopy(document)
    for _ in range(draw(st.integers(0, 3))):
        paths = [path for path in positions(document) if path[:1] in (("spec",), ("status",))]
        *path, last = draw(st.sampled_from(paths)) if paths else ("spec",)
        holder = document
        for part in path:
            holder = holder[part]
        if isinstance(holder, dict) and draw(st.booleans()):
            holder.pop(last, None)
        else:
            holder[last] = draw(VALUES)
    return document


whole = pytest.mark.parametrize("document", WHOLE, ids=lambda document: document["kind"])


@whole
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_there_is_always_a_verdict(document, data):
    """And what was not changed is never refused."""
    new, old = data.draw(damaged(document)), data.draw(damaged(document))
    for subresource in ("", "status"):
        verdict = judge("UPDATE", new, old, ALICE, subresource=subresource)
        assert verdict.allowed is not bool(verdict.errors)
        assert judge("UPDATE", old, old, ALICE, subresource=subresource).allowed
    verdict = judge("CREATE", new, None, ALICE)
    assert verdict.allowed is not bool(verdict.errors) or verdict.code == 403


@whole
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_defaults_are_a_patch_and_are_found_once(document, data):
    new, old = data.draw(damaged(document)), data.draw(st.none() | damaged(document))
    kept, operation = deepcopy(new), "CREATE" if old is None else "UPDATE"
    mutation = mutate(new, old, operation, REQUEST)
    assert new == kept
    assert apply_patch(new, mutation.patch) == mutation.document
    assert all(step["path"].startswith("/spec/") for step in mutation.patch)
    assert mutate(mutation.document, old, operation, DefaultingContext(REQUEST.now, "another")).patch == ()


@whole
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_defaults_do_not_change_the_verdict_on_a_new_object(document, data):
    new = data.draw(damaged(document))
    filled = mutate(new, None, "CREATE", REQUEST).document
    assert judge("CREATE", new, None, ALICE).errors == judge("CREATE", filled, None, ALICE).errors
