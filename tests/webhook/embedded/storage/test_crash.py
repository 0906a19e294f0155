"""A store whose process is killed: nothing acknowledged is lost, nothing is there twice, the file opens."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from scorer.api.kinds import BINDING, KINDS, NAMESPACE
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import Key, NotFoundError

CONFIG_MAP = KINDS["", "ConfigMap"]

# Says on its standard output what it was promised, one line per acknowledged write.
WRITER = """
import asyncio, itertools, sys
from pathlib import Path
from scorer.api.kinds import BINDING, KINDS
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import Key

CONFIG_MAP = KINDS["", "ConfigMap"]

def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\\n")
    sys.stdout.flush()

def make(kind, name, namespace=None, **members):
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **members}

async def write(store, turn, lane):
    for count in itertools.count():
        name = f"c-{turn}-{lane}-{count}"
        stored = await store.create(CONFIG_MAP, make(CONFIG_MAP, name, "shop", data={"n": "0", "pad": "x" * 3000}))
        say("put", name, stored["metadata"]["resourceVersion"], 0)
        for n in (1, 2):
            stored = await store.replace(CONFIG_MAP, make(CONFIG_MAP, name, "shop", data={"n": str(n)}))
            say("put", name, stored["metadata"]["resourceVersion"], n)
        if count % 2:
            await store.delete(CONFIG_MAP, Key(name, "shop"))
            say("gone", name)
        if count % 5 == 0:  # an owner with dependents goes: all of them or none
            owner = await store.create(BINDING, make(BINDING, f"o-{turn}-{lane}-{count}"))
            reference = {"apiVersion": BINDING.api_version, "kind": BINDING.kind, "name": owner["metadata"]["name"]}
            for child in range(4):
                document = make(BINDING, f"d-{turn}-{lane}-{count}-{child}")
                document["metadata"]["ownerReferences"] = [reference | {"uid": owner["metadata"]["uid"]}]
                await store.create(BINDING, document)
            await store.delete(BINDING, Key(owner["metadata"]["name"]))
            say("family", f"{turn}-{lane}-{count}")

async def main(path, turn):
    store = EmbeddedStore.open(Path(path), retention=200)
    say("open", store.resource_version)
    async with asyncio.TaskGroup() as group:
        for lane in range(4):
            group.create_task(write(store, turn, lane))

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


def run_and_kill(path: Path, turn: int, delay: float, promises: Path) -> list[list[str]]:
    with promises.open("w") as output:
        child = subprocess.Popen([sys.executable, "-c", WRITER, path, str(turn)], stdout=output)
        while not promises.stat().st_size and child.poll() is None:
            time.sleep(0.005)
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    text = promises.read_text()
    return [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]


async def test_ten_kills(tmp_path):
    path = tmp_path / "hub.db"
    store = EmbeddedStore.open(path)
    await store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    store.close()
    dice = random.Random(7)
    expected: dict[str, tuple[int, int]] = {}
    newest, acknowledged = 0, 0
    for turn in range(10):
        lines = run_and_kill(path, turn, dice.uniform(0.0, 0.25), tmp_path / "promises")
        assert int(lines[0][1]) >= newest
        families = set()
        versions = []
        for what, name, *rest in lines[1:]:
            acknowledged += 1
            if what == "put":
                expected[name] = int(rest[0]), int(rest[1])
                versions.append(int(rest[0]))
            elif what == "gone":
                del expected[name]
            else:
                families.add(name)
        assert versions == sorted(set(versions))
        newest = max(versions, default=newest)

        store = EmbeddedStore.open(path)
        assert int(store.resource_version) >= newest
        listed = (await store.list(CONFIG_MAP)).items
        found = {one["metadata"]["name"]: one for one in listed}
        assert len(found) == len(listed)
        for name, (version, n) in expected.items():
            if name not in found:  # the deletion was stored, and the kill came before its acknowledgement
                assert n == 2
                assert int(name.rpartition("-")[2]) % 2
            else:
                stored = int(found[name]["metadata"]["resourceVersion"]), int(found[name]["data"]["n"])
                assert stored == (version, n) or (stored[0] > version and stored[1] == n + 1)
        unacknowledged = found.keys() - expected.keys()
        assert len(unacknowledged) <= 4  # one write on its way per lane
        assert len({one["metadata"]["uid"] for one in listed}) == len(listed)
        bindings = [one["metadata"]["name"] for one in (await store.list(BINDING)).items]
        for name in bindings:
            kind, _, family = name.partition("-")
            family = family if kind == "o" else family.rpartition("-")[0]
            assert family not in families
            if kind == "d":
                assert f"o-{family}" in bindings
        for name in tuple(found):  # leave a clean slate, so that lanes of the next turn are told apart
            await store.delete(CONFIG_MAP, Key(name, "shop"))
        for name in bindings:
            try:
                await store.delete(BINDING, Key(name))
            except NotFoundError:
                assert name.startswith("d-")
        expected.clear()
        newest = int(store.resource_version)
        store.close()
    assert acknowledged > 100
