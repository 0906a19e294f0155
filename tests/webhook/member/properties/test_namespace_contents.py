"""Counts of the content of placed namespaces, from a server that lists by page."""

import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web

from scorer.api.cluster.member_cluster import NamespaceContents
from scorer.api.kinds import APPLIED_WORK, INTERNAL_MEMBER_CLUSTER
from tests.loopback import on_loopback
from webhook.kube.client.api_server import ApiServer
from webhook.kube.login.connection import Login
from webhook.member.membership.heartbeat import HeartbeatFigures, heartbeat_status
from webhook.member.properties import namespace_contents
from webhook.member.properties.namespace_contents import PAGE, PERIOD, RETRY, NamespaceCounter

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WORK = {"apiVersion": APPLIED_WORK.api_version, "kind": "AppliedWork", "name": "shop-work", "uid": "w"}
CONTROLLER = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "c", "controller": True}


def named(name, *owners):
    return {"metadata": {"name": name, "ownerReferences": list(owners)}}


class Clock:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


class Member:
    """Objects by namespace and plural, and the requests that were sent."""

    def __init__(self, objects, forbidden=()):
        self.objects = objects
        self.forbidden = set(forbidden)
        self.failing = False
        self.asked = []

    async def respond(self, request):
        *_, namespace, plural = request.path.split("/")
        self.asked.append((namespace, plural))
        if self.failing:
            return web.json_response({"kind": "Status", "message": "etcd is slow"}, status=500)
        if plural in self.forbidden:
            return web.json_response({"kind": "Status", "message": "may not list"}, status=403)
        assert "PartialObjectMetadataList" in request.headers["Accept"]
        found = self.objects.get((namespace, plural), [])
        limit = int(request.query["limit"])
        more = {"continue": "next"} if len(found) > limit else {}
        return web.json_response({"metadata": {"resourceVersion": "1", **more}, "items": found[:limit]})


@asynccontextmanager
async def counting(member, placed, clock=None):
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", member.respond)
    async with on_loopback(app) as address, ApiServer(Login(address)) as server:
        yield NamespaceCounter(server, lambda: placed, clock or Clock(), pause=timedelta())


async def test_claims_and_objects_of_others_are_counted():
    member = Member(
        {
            ("shop", "persistentvolumeclaims"): [named("data-0"), named("data-1")],
            ("shop", "deployments"): [named("web", WORK), named("debug")],
            ("shop", "configmaps"): [named("kube-root-ca.crt"), named("notes"), named("routes", WORK)],
            ("shop", "jobs"): [named("nightly-1", CONTROLLER)],
        }
    )
    async with counting(member, ["shop"]) as counter:
        await counter.count()
        assert counter.contents == {"shop": {"volumeClaims": 2, "others": 2, "observationTime": "2026-03-01T12:00:00Z"}}


async def test_a_full_page_is_a_lower_bound():
    claims = [named(f"data-{number}") for number in range(PAGE + 1)]
    async with counting(Member({("shop", "persistentvolumeclaims"): claims}), ["shop"]) as counter:
        await counter.count()
        counts = counter.contents["shop"]
        assert (counts["volumeClaims"], counts["atLeast"]) == (PAGE, True)


async def test_a_namespace_that_cannot_be_counted_is_unknown():
    member, clock = Member({("shop", "persistentvolumeclaims"): [named("data")]}), Clock()
    async with counting(member, ["shop"], clock) as counter:
        await counter.count()
        assert list(counter.contents) == ["shop"]
        member.forbidden = {"persistentvolumeclaims"}
        clock.now += PERIOD
        await counter.count()
        assert counter.contents == {}


@pytest.mark.parametrize(
    ("forbidden", "wait"),
    [pytest.param((), RETRY, id="failure"), pytest.param(("persistentvolumeclaims",), PERIOD, id="right")],
)
async def test_a_failed_count_is_repeated(forbidden, wait):
    """A failure is over soon, and a missing right is not."""
    member, clock = Member({}, forbidden), Clock()
    member.failing = not forbidden
    async with counting(member, ["shop"], clock) as counter:
        await counter.count()
        assert counter.contents == {}
        member.failing, member.forbidden = False, set()
        clock.now += wait - timedelta(seconds=1)
        await counter.count()
        assert counter.contents == {}
        clock.now += timedelta(seconds=1)
        await counter.count()
        assert list(counter.contents) == ["shop"]


async def test_a_kind_that_may_not_be_listed_makes_the_count_a_lower_bound():
    member = Member({("shop", "services"): [named("web")]}, forbidden={"jobs"})
    async with counting(member, ["shop"]) as counter:
        await counter.count()
        counts = counter.contents["shop"]
        assert (counts["others"], counts["atLeast"]) == (1, True)


async def test_a_namespace_is_counted_once_in_a_period():
    member, placed = Member({}), ["shop"]
    async with counting(member, placed) as counter:
        for _ in range(2):
            await counter.count()
        assert len(member.asked) == 8
        placed.append("cart")
        await counter.count()
        assert [namespace for namespace, _ in member.asked[8:]] == ["cart"] * 8


async def test_only_so_many_namespaces_are_counted(monkeypatch):
    monkeypatch.setattr(namespace_contents, "MOST_NAMESPACES", 2)
    member = Member({})
    async with counting(member, ["a", "c", "b"]) as counter:
        await counter.count()
        assert list(counter.contents) == ["a", "b"]
        assert {namespace for namespace, _ in member.asked} == {"a", "b"}


async def test_a_heartbeat_reports_them_as_the_definition_has_them():
    contents = {"shop": {"volumeClaims": 2, "others": 1, "atLeast": True, "observationTime": "2026-03-01T12:00:00Z"}}
    figures = HeartbeatFigures(namespace_contents=contents)
    status = heartbeat_status(INTERNAL_MEMBER_CLUSTER, {}, figures, NOW, generation=1)
    assert status["namespaceContents"] == contents
    read = NamespaceContents.model_validate_json(json.dumps(contents["shop"]))
    assert read == NamespaceContents(volume_claims=2, others=1, at_least=True, observation_time=NOW)
    silent = heartbeat_status(INTERNAL_MEMBER_CLUSTER, {}, HeartbeatFigures(), NOW, generation=1)
    assert "namespaceContents" not in silent
