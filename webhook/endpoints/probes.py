"""``/livez``, ``/readyz``, ``/healthz`` and ``/metrics``.

The format of the probes is that of the Kubernetes components, ``?verbose`` and ``?exclude=`` included.

Source: docs/specifications/serving.md 6.1 and 6.4.
"""

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from webhook.telemetry.crew import WorkerGroup
from webhook.telemetry.health import Health
from webhook.telemetry.process_metrics import ProcessMetrics

Probe = Callable[[], Awaitable[Mapping[str, str]]]


def add_routes(app: web.Application, health: Health, metrics: ProcessMetrics, crew: WorkerGroup | None = None) -> None:
    """Serve the probes and the metrics.

    Args:
        app: Gets the routes.
        health: Health of this process.
        metrics: Metrics of this process.
        crew: The group of workers that includes this process, to aggregate over all of them. None if not a worker.
    """

    async def liveness() -> Mapping[str, str]:
        return health.liveness() if crew is None else await crew.liveness()

    async def readiness() -> Mapping[str, str]:
        return health.readiness() if crew is None else await crew.readiness()

    app.router.add_get("/livez", _probe("livez", liveness, health.describe))
    app.router.add_get("/healthz", _probe("healthz", liveness, health.describe))
    app.router.add_get("/readyz", _probe("readyz", readiness, health.describe))
    app.router.add_get("/metrics", exposition(metrics, crew))


def exposition(
    metrics: ProcessMetrics, crew: WorkerGroup | None = None
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the handler that shows *metrics*, or those of all workers."""

    async def handle(request: web.Request) -> web.Response:
        accept = request.headers.get("Accept", "")
        if crew is not None:
            body, content_type = await crew.exposition(accept)
        else:
            await metrics.prepared()
            body, content_type = metrics.exposition(accept)
        return web.Response(body=body, headers={"Content-Type": content_type})

    return handle


def _probe(name: str, run: Probe, remark: Callable[[str], str]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        excluded_checks = set(request.query.getall("exclude", ()))
        lines, failed = [], False
        for check, trouble in (await run()).items():
            if check in excluded_checks:
                excluded_checks.discard(check)
                lines.append(f"[+]{check} excluded: ok")
            elif trouble:
                failed = True
                lines.append(f"[-]{check} failed: {trouble}")
            else:
                remark_text = remark(check)
                lines.append(f"[+]{check} ok: {remark_text}" if remark_text else f"[+]{check} ok")
        if excluded_checks:
            lines.append("warn: some health checks cannot be excluded: no matches for the names given")
        if failed:
            return _text("\n".join([*lines, f"{name} check failed"]) + "\n", 503)
        if "verbose" in request.query:
            return _text("\n".join([*lines, f"{name} check passed"]) + "\n", 200)
        return _text("ok", 200)

    return handle


def _text(text: str, status: int) -> web.Response:
    return web.Response(text=text, status=status, headers={"Cache-Control": "no-store"})
