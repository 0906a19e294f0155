"""The page's files, and who may see what on the plain listener."""

import gzip
from pathlib import Path

import pytest

from webhook.endpoints.http.responses import SMALLEST

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def port(shared_port):
    """The server of all tests here but those that need other settings."""
    shared_port.renew()
    return shared_port


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGES = {"index.html": "/", "docs.html": "/docs"}
FACTS = (b'name="program" content=""', b'name="program" content="kubectl harbormaster"')
FOLDER = Path(__file__).parents[4] / "webhook" / "page"


async def test_every_file_is_served_as_it_is(port):
    served = [file for file in FOLDER.iterdir() if file.suffix in {".html", ".js", ".css", ".svg"}]
    assert served
    async with port.dial() as connection:
        for file in served:
            path = PAGES.get(file.name) or f"/ui/{file.name}"
            answer = await connection.get(path)
            assert (answer.status, answer.body) == (200, file.read_bytes().replace(*FACTS))
            assert answer.headers["Content-Security-Policy"] == POLICY
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Cache-Control"] == "no-cache"
            again = await connection.get(path, If_None_Match=answer.headers["ETag"])
            assert (again.status, again.body) == (304, b"")
            packed = await connection.get(path, Accept_Encoding="gzip, br")
            assert packed.headers["ETag"] != answer.headers["ETag"] or "Content-Encoding" not in packed.headers
            if len(answer.body) >= SMALLEST:
                assert packed.headers["Content-Encoding"] == "gzip"
                assert gzip.decompress(packed.body) == answer.body


@pytest.mark.parametrize(("plain", "open_to"), [(True, b"machine"), (False, b"")])
async def test_only_the_plain_listener_says_that_it_is_open_to_the_machine(launch, plain, open_to):
    async with launch(page_on_http=True) as port, port.dial(plain=plain) as connection:
        assert b'<meta name="open-to" content="%s">' % open_to in (await connection.get("/")).body


async def test_types_are_told_apart(port):
    async with port.dial() as connection:
        assert (await connection.get("/")).headers["Content-Type"] == "text/html; charset=utf-8"
        assert (await connection.get("/ui/icon.svg")).headers["Content-Type"] == "image/svg+xml"


@pytest.mark.parametrize(
    "path",
    [
        "/ui/",
        "/ui/../server.py",
        "/ui/%2e%2e/server.py",
        "/index.html",
        "/docs.html",
        "/ui/index.html",
        "/ui/docs.html",
    ],
)
async def test_nothing_else_is_a_file(port, path):
    async with port.dial() as connection:
        assert (await connection.get(path)).status == 404


async def test_the_plain_listener_serves_the_page_and_reads_when_told_to(launch):
    body = b'{"placement":{"ref":{"kind":"ClusterResourcePlacement","name":"payments"}}}'
    async with launch(page_on_http=True) as port, port.dial(plain=True) as connection:
        for path in ("/", "/v1/clusters", "/v1/placements", "/v1/placements/crp/payments", "/livez", "/metrics"):
            assert (await connection.get(path)).status == 200
        assert (await connection.post("/v1/explain", body)).status == 200
        for path in ("/v1/score", "/v1/filter", "/validate", "/mutate"):
            assert (await connection.post(path, body)).status == 404


@pytest.mark.parametrize(
    ("host", "welcome"),
    [
        ("localhost", True),
        ("localhost:8081", True),
        ("LOCALHOST:8081", True),
        ("127.0.0.1:8081", True),
        ("127.0.0.2", True),
        ("[::1]:8081", True),
        ("[::1]", True),
        ("evil.example", False),
        ("evil.example:8081", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example:80", False),
        ("10.0.0.1:8081", False),
        ("localhost:", False),
        ("localhost:80a", False),
        ("", False),
    ],
)
async def test_only_names_of_this_machine_are_answered(launch, host, welcome):
    """Else a web page could read the fleet through a name of its own that it points at 127.0.0.1."""
    async with launch(page_on_http=True) as port, port.dial(plain=True) as connection:
        for path in ("/v1/clusters", "/", "/metrics", "/nowhere"):
            await connection.send(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            status = (await connection.answer()).status
            assert (status == 403) is not welcome
