"""A real hub over real TLS in a thread of its own, and the program as a user calls it."""

import asyncio
import threading
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from click.testing import CliRunner

from certs.authority import Authority
from certs.context import ServerContext
from scorer.api.kinds import NAMESPACE
from tests.loopback import on_loopback
from tests.waiting import PATIENCE_SECONDS
from webhook.access.user import UserInfo
from webhook.cli.root import root
from webhook.embedded.api_server.handlers import add_routes
from webhook.embedded.storage.store import EmbeddedStore
from webhook.processes.hub_kubeconfig import FILE, hub_kubeconfig
from webhook.validation.framework.context import Context

TOKEN = "a-token-of-the-tests"
USER = UserInfo("tester", frozenset({"system:masters"}))


@pytest.fixture
def cli(tmp_path, monkeypatch):
    """Return a function that runs the program in this process; its state folder is empty."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # what `edit` keeps of a refused change goes with the test
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("HARBORMASTER_DATA", "HARBORMASTER_SERVER", "KUBE_EDITOR", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments, text=None, called="harbormaster"):
        return CliRunner().invoke(root, [str(argument) for argument in arguments], input=text, prog_name=called)

    return run


@dataclass
class RunningHub:
    """An embedded store behind its REST interface.

    Args:
        data: A folder with a kubeconfig, as ``up`` writes it.
        store: What is behind it; only for looking, and only while nothing else happens.
    """

    data: Path
    store: EmbeddedStore
    url: str
    loop: asyncio.AbstractEventLoop

    def run(self, work):
        """Run a coroutine on the hub's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_SECONDS)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Yield a running hub that client commands find by the environment."""
    with running_hub(tmp_path / "hub") as found:
        monkeypatch.setenv("HARBORMASTER_DATA", str(found.data))
        yield found


@asynccontextmanager
async def bare_store():
    """Open a store with two namespaces, on which nothing works."""
    store = EmbeddedStore.open(None)
    for name in ("default", "shop"):
        await store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield store
    store.close()


@contextmanager
def running_hub(data, opened=bare_store, context=lambda: Context.of_objects([])):
    """Run a hub with its data folder at *data*.

    Args:
        data: A folder that is not there yet.
        opened: Returns an async context manager of the store.
        context: Returns what admission rules may read.
    """
    now = datetime.now(UTC)
    authority = Authority.new(now)
    listener = ServerContext(authority.issue(("localhost",), ("127.0.0.1",), now)).listener
    loop, stack = asyncio.new_event_loop(), AsyncExitStack()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def there(work):
        """Run *work* where the hub runs: a database belongs to the thread that opened it."""
        return asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE_SECONDS)

    async def start():
        store = await stack.enter_async_context(opened())
        app = web.Application()
        add_routes(app, store, lambda: context().with_user(USER), TOKEN)
        return store, await stack.enter_async_context(on_loopback(app, tls=listener))

    try:
        try:
            yield _found_by_clients(data, authority, *there(start()), loop)
        finally:
            there(stack.aclose())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_SECONDS)
        loop.close()


def _found_by_clients(data, authority, store, url, loop):
    data.mkdir()
    (data / "ca.crt").write_bytes(authority.pem)
    (data / "token").write_text(TOKEN)
    (data / FILE).write_text(hub_kubeconfig(url, TOKEN, data / "ca.crt", ""))
    return RunningHub(data, store, url, loop)


def kubeconfig(hub, path, token=TOKEN):
    """Write a kubeconfig of the hub, as for any other."""
    cluster = {"server": hub.url, "certificate-authority": str(hub.data / "ca.crt")}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": cluster}],
        "users": [{"name": "me", "user": {"token": token}}],
        "contexts": [{"name": "here", "context": {"cluster": "hub", "user": "me"}}],
        "current-context": "here",
    }
    path.write_text(yaml.safe_dump(document))
    return path
