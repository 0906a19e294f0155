"""A small server for Pods that try the kubelet; needs nothing but the standard library.

``GET /`` says who it is, ``/env`` and ``/file?PATH`` what it sees, ``/ids`` as whom it runs, ``/write?PATH`` whether it
can write there, ``/fetch?URL`` what another server answers, ``/whoami`` who its token is to the API server.
``/break?PATH`` has PATH answer 500 from then on, ``/mend?PATH`` has it answer again. With ``DEAF`` in its environment
it does not listen to SIGTERM.
"""

import json
import os
import signal
import socket
import ssl
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REQUEST_SECONDS = 120
BROKEN: set[str] = set()


def about() -> object:
    """Who it is."""
    return {"host": socket.gethostname(), "version": os.environ.get("VERSION", "")}


def ids() -> object:
    """As whom it runs."""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    groups = sorted(os.getgroups())
    return {
        "pid": os.getpid(),
        "user": os.getuid(),
        "group": os.getgid(),
        "groups": groups,
        "bounds": status["CapBnd"],
        "no_new_privs": status["NoNewPrivs"],
        "folder": str(Path.cwd()),
    }


def file(path: str) -> object:
    """What a file holds, and its mode."""
    found = Path(path).stat()
    return {"content": Path(path).read_text(), "mode": oct(found.st_mode & 0o7777), "group": found.st_gid}


def write(path: str) -> object:
    """Whether it can write there."""
    try:
        Path(path).write_text("here")
    except OSError as error:
        return error.strerror
    return ""


def fetch(url: str) -> object:
    """What another server answers."""
    with urllib.request.urlopen(url, timeout=REQUEST_SECONDS) as answer:
        return json.loads(answer.read())


def whoami() -> object:
    """Who its token is to the API server, by the name that the API server has in a cluster."""
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    headers = {"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}", "Content-Type": "application/json"}
    url = f"https://kubernetes.default.svc:{os.environ['KUBERNETES_SERVICE_PORT']}{REVIEW}"
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    request = urllib.request.Request(url, json.dumps(kind).encode(), headers)
    with urllib.request.urlopen(request, timeout=REQUEST_SECONDS, context=trust) as answer:
        return json.loads(answer.read())["status"]["userInfo"]


class Handler(BaseHTTPRequestHandler):
    """Answers in JSON."""

    def do_GET(self) -> None:  # the library's name
        """Answer."""
        path, _, given = self.path.partition("?")
        given = unquote(given)
        if path in BROKEN:
            self._answer(500, "broken")
        elif path in {"/break", "/mend"}:
            (BROKEN.add if path == "/break" else BROKEN.discard)(given)
            self._answer(200, sorted(BROKEN))
        elif path in {"/file", "/write", "/fetch"}:
            self._try({"/file": file, "/write": write, "/fetch": fetch}[path], given)
        else:
            self._try({"/env": lambda: dict(os.environ), "/ids": ids, "/whoami": whoami}.get(path, about))

    def _try(self, function: object, *given: str) -> None:
        assert callable(function)
        try:
            self._answer(200, function(*given))
        except (OSError, KeyError) as error:
            self._answer(502, str(error))

    def _answer(self, code: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve until SIGTERM."""
    server = ThreadingHTTPServer(("", 8080), Handler)
    ended = threading.Event()

    def end(*_: object) -> None:
        sys.stderr.write("SIGTERM\n")
        if "DEAF" not in os.environ:
            ended.set()

    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while not ended.wait(1):
        pass
    server.shutdown()


if __name__ == "__main__":
    main()
