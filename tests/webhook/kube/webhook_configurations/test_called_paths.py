"""By which paths the API server calls, while configurations change, and while they cannot be read."""

import asyncio

import pytest

from tests.waiting import until
from tests.webhook.kube.authority_hub import AuthorityHub
from webhook.kube.client.paths import path_of
from webhook.kube.ports import ForbiddenError, UnavailableError
from webhook.kube.webhook_configurations.ca_bundles import CONFIGURATIONS, CaBundles
from webhook.kube.webhook_configurations.called_paths import GRACE_SECONDS, HookCalls
from webhook.settings.secret_files import secret_in

OLD, NEW = "o" * 32, "n" * 32
VALIDATING, MUTATING = (path_of(kind, name="hooks") for kind in CONFIGURATIONS)


def service(path):
    return {"service": {"namespace": "quay", "name": "harbormaster", "path": path}}


def register(hub, *paths, at=VALIDATING):
    """Have a configuration call these paths."""
    hooks = [{"name": f"{number}.example.com", "clientConfig": service(path)} for number, path in enumerate(paths)]
    hub.put(at, {"metadata": {"name": "hooks"}, "webhooks": hooks})


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def hub():
    """A hub on which both configurations call below the old secret."""
    found = AuthorityHub()
    for at in (VALIDATING, MUTATING):
        register(found, f"/hooks/{OLD}/validate/a/b", at=at)
    return found


@pytest.fixture
def calls(hub):
    return HookCalls(CaBundles(hub, "hooks"), Clock())


def counting(calls):
    return calls.plainly, {each.decode() for each in calls.secrets}


@pytest.mark.parametrize(
    ("validating", "mutating", "expected"),
    [
        pytest.param(["/validate/a/b"], ["/mutate/a/b"], (True, set()), id="plain"),
        pytest.param([f"/hooks/{NEW}/validate"], [f"/hooks/{NEW}/mutate"], (False, {NEW}), id="secret"),
        pytest.param([f"/hooks/{NEW}/validate"], ["/mutate/a/b"], (True, {NEW}), id="one-of-them-plain"),
        pytest.param([f"/hooks/{NEW}/validate", "/validate"], [], (True, {NEW}), id="one-entry-plain"),
        pytest.param([f"/hooks/{NEW}/validate"], [f"/hooks/{OLD}/mutate"], (False, {NEW, OLD}), id="two-secrets"),
        pytest.param(["/hooks/short/validate"], ["/hooks"], (True, set()), id="no-secret"),
        pytest.param([], [], (False, set()), id="no-entries"),
    ],
)
async def test_what_configurations_call(hub, calls, validating, mutating, expected):
    register(hub, *validating)
    register(hub, *mutating, at=MUTATING)
    await calls.start()
    assert counting(calls) == expected


@pytest.mark.parametrize(
    ("called", "secret"),
    [
        (f"/hooks/{NEW}/validate", NEW),
        (f"https://example.com:9443/hooks/{NEW}/validate/a/b", NEW),
        (f"https://example.com/hooks/{NEW}", NEW),
        ("https://example.com/validate", ""),
        ("https://example.com", ""),
        (f"/validate/hooks/{NEW}", ""),
        ("", ""),
        ("/hooks//validate", None),
        (f"/hooks/{NEW}%00/validate", None),
        ("/hooks/" + "x" * 129, None),
    ],
)
def test_the_secret_in_what_is_called(called, secret):
    assert secret_in(called) == secret


async def test_before_anything_is_read_and_where_nothing_is_registered_no_path_counts(hub, calls):
    assert counting(calls) == (False, set())
    for at in (VALIDATING, MUTATING):
        hub.delete(at)
    await calls.start()
    assert counting(calls) == (False, set())


@pytest.mark.parametrize("refusal", [ForbiddenError("no"), UnavailableError("not now")])
async def test_what_cannot_be_read_opens_nothing_and_closes_nothing(hub, refusal, caplog):
    calls = HookCalls(CaBundles(hub, "hooks"), Clock())
    hub.refusal["/"] = refusal
    await calls.start()
    assert counting(calls) == (False, set())
    assert [record.getMessage() for record in caplog.records] == ["webhook configurations not read"]
    hub.refusal.clear()
    await calls.start()
    hub.refusal["/"] = refusal
    await calls.start()
    assert counting(calls) == (False, {OLD})


async def test_a_path_counts_for_a_while_after_it_is_no_longer_called(hub):
    clock = Clock()
    calls = HookCalls(CaBundles(hub, "hooks"), clock)
    for at in (VALIDATING, MUTATING):
        register(hub, "/validate", at=at)
    await calls.start()
    register(hub, f"/hooks/{NEW}/validate")
    await calls.settle()
    clock.now += GRACE_SECONDS * 2
    assert counting(calls) == (True, {NEW})  # the other one still calls it
    register(hub, f"/hooks/{NEW}/mutate", at=MUTATING)
    await calls.settle()
    assert counting(calls) == (True, {NEW})
    clock.now += GRACE_SECONDS - 1
    await calls.settle()
    assert counting(calls) == (True, {NEW})
    clock.now += 1
    assert counting(calls) == (False, {NEW})


async def test_a_rollback_opens_the_plain_paths_again(hub, calls):
    await calls.start()
    for at in (VALIDATING, MUTATING):
        register(hub, "/validate", at=at)
    await calls.settle()
    assert counting(calls) == (True, {OLD})


@pytest.mark.parametrize("at", [VALIDATING, MUTATING], ids=["validating", "mutating"])
async def test_changes_are_followed(hub, calls, at):
    following = asyncio.create_task(calls.follow())
    try:
        await until(lambda: counting(calls) == (False, {OLD}))
        changing = asyncio.create_task(calls.change())
        register(hub, f"/hooks/{NEW}/validate", at=at)
        await until(lambda: NEW in counting(calls)[1])
        await changing
    finally:
        following.cancel()
        await asyncio.wait([following])
