"""Upgrade kinds on the embedded API server: defaults that depend on the request, and rules on statuses."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from tests.webhook.validation.upgrade_objects import make_gate, make_run, make_window
from webhook.access.user import UserInfo
from webhook.embedded.api_server.handlers import add_routes
from webhook.embedded.storage.store import EmbeddedStore
from webhook.validation.framework.context import Context

NOW = datetime(2025, 1, 6, 23, tzinfo=UTC)
ROOT = "/apis/upgrade.harbormaster.dev/v1alpha1"
USERS = {"alice": Context(now=NOW).with_user(UserInfo("alice")), "harbormaster": Context(now=NOW)}


@pytest.fixture
def store():
    opened = EmbeddedStore.open(None, now=lambda: NOW)
    yield opened
    opened.close()


@pytest.fixture
async def clients(aiohttp_client, store):
    """One client per user."""
    found = {}
    for user, context in USERS.items():
        served = web.Application()
        add_routes(served, store, lambda context=context: context, user)
        found[user] = await aiohttp_client(served, headers={"Authorization": f"Bearer {user}"})
    return found


@pytest.fixture
def alice(clients):
    return clients["alice"]


@pytest.fixture
def harbormaster(clients):
    return clients["harbormaster"]


async def created(client, plural: str, document: dict[str, Any]) -> dict[str, Any]:
    answer = await client.post(f"{ROOT}/{plural}", json=document)
    body: dict[str, Any] = await answer.json()
    assert answer.status == 201, body
    return body


async def patched(client, path: str, **changes: Any) -> dict[str, Any]:
    merge = {"Content-Type": "application/merge-patch+json"}
    answer = await client.patch(f"{ROOT}/{path}", json=changes, headers=merge)
    body: dict[str, Any] = await answer.json()
    return body


async def test_each_restart_has_a_token_of_its_own(alice, harbormaster):
    await created(alice, "clusterupgraderuns", make_run(state="Run"))
    tokens = []
    for _ in range(2):
        await patched(alice, "clusterupgraderuns/x", spec={"state": "Stop"})
        await patched(harbormaster, "clusterupgraderuns/x/status", status={"state": "Stopped"})
        run = await patched(alice, "clusterupgraderuns/x", spec={"state": "Run"})
        tokens.append(run["spec"]["restartToken"])
    assert all(re.fullmatch("[-0-9a-f]{36}", token) for token in tokens)
    assert len(set(tokens)) == 2


async def test_a_rhythm_begins_on_the_day_that_it_is_where_the_window_is(alice):
    every_other_day = {"daily": {"intervalDays": 2}}
    document = make_window(schedule=every_other_day, utcOffset="+02:00")
    window = await created(alice, "clustermaintenancewindows", document)
    assert window["spec"]["startDate"] == "2025-01-07"


async def test_an_answer_to_a_gate_counts_while_the_gate_is_pending(alice, harbormaster):
    refused = await (await alice.post(f"{ROOT}/clusterupgradegates", json=make_gate())).json()
    assert (refused["code"], refused["reason"]) == (403, "Forbidden")
    await created(harbormaster, "clusterupgradegates", make_gate())
    answer = [{"type": "Approved", "status": "True", "reason": "Said", "message": ""}]
    answer[0]["lastTransitionTime"] = "2025-01-06T23:00:00Z"
    gate = await patched(alice, "clusterupgradegates/x/status", status={"conditions": answer})
    assert gate["status"]["conditions"] == answer
    await patched(harbormaster, "clusterupgradegates/x/status", status={"state": "Skipped", "conditions": []})
    late = await patched(alice, "clusterupgradegates/x/status", status={"conditions": answer})
    assert [cause["field"] for cause in late["details"]["causes"]] == ["status.state"]


async def test_a_gate_is_not_deleted_by_hand(alice, harbormaster):
    await created(harbormaster, "clusterupgradegates", make_gate())
    answer = await alice.delete(f"{ROOT}/clusterupgradegates/x")
    assert answer.status == 403
    assert (await harbormaster.delete(f"{ROOT}/clusterupgradegates/x")).status == 200
