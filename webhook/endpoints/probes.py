"""``/livez``, ``/readyz``, ``/healthz`` and ``/metrics``.

The format of the probes is that of the Kubernetes components, ``?verbose`` and ``?exclude=`` included.

Source: serving.md 6.1 and 6.4.
"""

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from webhook.telemetry.health import Health
from webhook.telemetry.process_metrics import ProcessMetrics

Probe = Callable[[], Mapping[str, str]]


def add_routes(app: web.Application, health: Health, metrics: ProcessMetrics) -> None:
    """Serve the probes and the metrics."""
    app.router.add_get("/livez", _probe("livez", health.liveness, health.remark))
    app.router.add_get("/healthz", _probe("healthz", health.liveness, health.remark))
    app.router.add_get("/readyz", _probe("readyz", health.readiness, health.remark))
    app.router.add_get("/metrics", exposition(metrics))


def exposition(metrics: ProcessMetrics) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the handler that shows *metrics*."""

    async def handle(request: web.Request) -> web.Response:
        await metrics.prepared()
        body, content_type = metrics.exposition(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    return handle


def _probe(name: str, run: Probe, remark: Callable[[str], str]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        excluded = set(request.query.getall("exclude", ()))
        lines, failed = [], False
        for check, trouble in run().items():
            if check in excluded:
                excluded.discard(check)
                lines.append(f"[+]{check} excluded: ok")
            elif trouble:
                failed = True
                lines.append(f"[-]{check} failed: {trouble}")
            else:
                said = remark(check)
                lines.append(f"[+]{check} ok: {said}" if said else f"[+]{check} ok")
        if excluded:
            lines.append("warn: some health checks cannot be excluded: no matches for the names given")
        if failed:
            return _text("\n".join([*lines, f"{name} check failed"]) + "\n", 503)
        if "verbose" in request.query:
            return _text("\n".join([*lines, f"{name} check passed"]) + "\n", 200)
        return _text("ok", 200)

    return handle


def _text(text: str, status: int) -> web.Response:
    return web.Response(text=text, status=status, headers={"Cache-Control": "no-store"})
