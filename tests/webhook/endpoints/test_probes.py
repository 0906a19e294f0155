"""Probes and metrics on the plain listener."""

import re

import pytest


async def get(port, path: str, **headers: str):
    async with port.dial(plain=True) as connection:
        return await connection.get(path, **headers)


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
async def test_a_healthy_server_says_ok(port, path):
    answer = await get(port, path)
    assert (answer.status, answer.body) == (200, b"ok")
    assert "Server" not in answer.headers


async def test_verbose_lists_every_check(port):
    answer = await get(port, "/readyz?verbose")
    draining, certs, *others = answer.body.decode().splitlines()
    assert draining == "[+]not-draining ok"
    assert re.fullmatch(r"\[\+\]certs ok: issued by harbormaster-ca-1-[0-9a-f]{8}, valid until \S+", certs)
    assert others == ["[+]listener ok", "[+]caches ok", "readyz check passed"]


async def test_empty_caches_are_not_ready_but_alive(launch):
    async with launch(synced=lambda: False) as port:
        answer = await get(port, "/readyz")
        assert answer.status == 503
        assert b"[-]caches failed: not synced yet\n" in answer.body
        assert (await get(port, "/livez")).status == 200
        excluded = await get(port, "/readyz?exclude=caches&verbose")
        assert excluded.status == 200
        assert b"[+]caches excluded: ok\n" in excluded.body


async def test_an_unknown_exclusion_is_told_and_ignored(port):
    answer = await get(port, "/readyz?exclude=nonsense&verbose")
    assert answer.status == 200
    assert b"warn: " in answer.body


async def test_a_certificate_near_its_end_is_not_ready(port):
    port.clock.advance(days=6, hours=22)
    assert (await get(port, "/readyz")).status == 200
    port.clock.advance(hours=1, seconds=10)
    assert b"[-]certs failed" in (await get(port, "/readyz")).body


async def test_a_late_event_loop_is_not_alive(port):
    port.server.health.lag_seconds = 5.0
    answer = await get(port, "/livez")
    assert (answer.status, b"[-]event-loop failed: timers fire 5.0 s late" in answer.body) == (503, True)


async def test_metrics_are_in_the_format_asked_for(port):
    plain = await get(port, "/metrics")
    assert plain.headers["Content-Type"].startswith("text/plain")
    assert b"harbormaster_certificate_expiration_timestamp_seconds" in plain.body
    assert b'harbormaster_build_info{commit="",python=' in plain.body
    assert b"process_resident_memory_bytes" in plain.body
    assert b"_created" not in plain.body
    openmetrics = await get(port, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert openmetrics.headers["Content-Type"].startswith("application/openmetrics-text")
    assert openmetrics.body.endswith(b"# EOF\n")


async def test_series_exist_before_anything_happened(port):
    zero = {"hook": "mutate", "operation": "UPDATE", "resource": "nodepools", "result": "allowed", "code": "200"}
    assert port.sample("harbormaster_admission_requests_total", **zero) == 0
    refused = zero | {"hook": "validate", "result": "denied", "code": "422"}
    assert port.sample("harbormaster_admission_requests_total", **refused) == 0
    assert port.sample("harbormaster_api_requests_total", route="/v1/score", code="200") == 0
    assert port.sample("harbormaster_certificate_renewals_total", role="leaf", result="failure") == 0


async def test_two_servers_count_apart(launch, review_bytes):
    async with launch() as one, launch() as other:
        async with one.dial() as connection:
            await connection.post("/validate", b"null")
        labels = {"surface": "admission", "reason": "malformed"}
        assert one.sample("harbormaster_http_rejected_total", **labels) == 1
        assert other.sample("harbormaster_http_rejected_total", **labels) == 0


@pytest.mark.parametrize("path", ["/", "/v1/clusters", "/validate", "/ui/app.js"])
async def test_the_plain_listener_has_nothing_else(port, path):
    assert (await get(port, path)).status == 404
