"""Common base of all web applications: the headers of every answer, and an answer for every path."""

from aiohttp import web

from webhook.endpoints.http.problems import Problem, ProblemError
from webhook.endpoints.http.responses import REQUEST_ID, problem_response, request_id
from webhook.telemetry.health import Health


def make_plain_app(health: Health, body_bytes: int = 1024) -> web.Application:
    """Create an application without routes that sets the common headers of every answer.

    Args:
        health: While it is draining, every answer closes its connection.
        body_bytes: Limit of a request body.
    """
    app = web.Application(client_max_size=body_bytes)
    draining = health.draining

    async def finish(request: web.BaseRequest, response: web.StreamResponse) -> None:
        headers = response.headers
        headers.popall("Server", None)
        if REQUEST_ID not in headers:
            headers[REQUEST_ID] = request_id(request)
        headers["X-Content-Type-Options"] = "nosniff"
        if draining.is_set():  # the client must send no more here: a request on its way would meet a closed socket
            headers["Connection"] = "close"
        if headers.get("Connection") == "close":
            response.force_close()

    app.on_response_prepare.append(finish)
    return app


def add_last_route(app: web.Application) -> None:
    """Answer every path without another route. Call it after all other routes are added."""

    async def unknown(request: web.Request) -> web.Response:
        return problem_response(
            request, ProblemError(Problem.NOT_FOUND, f"no route for {request.method} {request.path[:200]!r}")
        )

    app.router.add_route("*", "/{rest:.*}", unknown)
