"""Asking ``/v1``, and the shape of a refusal."""

import json

PAYMENTS = {"ref": {"kind": "ClusterResourcePlacement", "name": "payments"}}


def routes(app) -> list[str]:
    """Paths that the router knows, with words for the variable parts."""
    found = []
    for resource in app.router.resources():
        info = resource.get_info()
        path = info.get("path") or info["formatter"].replace("{name}", "payments").replace("{namespace}", "shop")
        found.append(path.replace("{rest}", "x").replace("{id}", "x").replace("{cluster}", "oslo"))
    return found


async def ask(port, path: str, body: object, **headers: str):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with port.dial() as connection:
        return await connection.post(path, data, **headers)


async def get(port, path: str, method: str = "GET", **headers: str):
    async with port.dial() as connection:
        return await connection.get(path, method, **headers)


def assert_problem(answer, slug: str, status: int) -> dict:
    assert answer.status == status
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.headers["Cache-Control"] == "no-store"
    body = answer.json
    assert body["type"] == f"urn:harbormaster:problem:{slug}"
    assert body["status"] == status
    assert body["instance"] == f"urn:uuid:{answer.headers['X-Request-Id']}"
    assert body["title"]
    assert body["detail"]
    return body


def assert_status(answer, code: int, reason: str) -> None:
    """The body has exactly the shape whose message reaches a user's terminal."""
    assert answer.status == code
    assert answer.headers["Content-Type"] == "application/json"
    body = answer.json
    assert {key: body[key] for key in ("kind", "apiVersion", "status", "code", "reason")} == {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
    }
    assert len(body["message"]) > 3
