"""``up`` as a process: what it prints, how it ends, and how it fails before anything is started."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.webhook.cli.fleets import by_nodes, member, placement, write

PROGRAM = str(Path(sys.executable).parent / "harbormaster")
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
ANY_PORTS = ("--https-port", "0", "--http-port", "0")


def up(data, *arguments):
    command = [PROGRAM, "up", "--data", data, *ANY_PORTS, "--once", *arguments]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def files(tmp_path):
    """Return a file with two members, of which the larger one is to be picked, and one that asks for too much."""
    policy = {"placementType": "PickN", "affinity": by_nodes()}
    much = placement("much", **policy, numberOfClusters=3)
    much["spec"]["resourceSelectors"][0]["name"] = "mall"
    return write(
        tmp_path / "fleet.yaml",
        placement(**policy, numberOfClusters=1),
        much,
        NAMESPACE,
        {**NAMESPACE, "metadata": {"name": "mall"}},
        member("dover", 10),
        member("faro", 2),
    )


def test_once_prints_addresses_and_where_everything_went(files, tmp_path):
    done = up(tmp_path / "data", "-f", files)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines[:8]] == ["page", "look", "https", "CA", "token", "data", "try", "or"]
    assert lines[7] == f"or:    kubectl --kubeconfig {tmp_path / 'data' / 'kubeconfig'} get crp"
    assert "6 objects: 6 created" in lines
    table = lines[lines.index(next(line for line in lines if line.startswith("PLACEMENT"))) :]
    assert [row.split()[:6] for row in table[:3]] == [
        ["PLACEMENT", "TYPE", "WANTED", "PICKED", "AVAILABLE", "STATE"],
        ["crp/much", "PickN", "3", "2", "2", "short"],
        ["crp/web", "PickN", "1", "1", "1", "available"],
    ]
    assert "found 2 of 3 clusters needed" in table[1]
    assert lines[-1].startswith(f"Ended; what is above stays in {tmp_path / 'data'}. ")
    assert lines[-1].endswith(f"harbormaster up --data {tmp_path / 'data'}")


def test_once_fails_when_an_object_is_refused_and_places_the_others(files, tmp_path):
    bad = write(tmp_path / "bad.yaml", placement("bad", placementType="PickN"))
    done = up(tmp_path / "data", "-f", files, "-f", bad)
    assert done.returncode == 1
    assert done.stderr.startswith(f'{bad}: document 1: The ClusterResourcePlacement "bad" is invalid: ')
    assert "7 objects: 6 created, 1 refused" in done.stdout
    assert "crp/web" in done.stdout


def test_one_object_is_one(tmp_path):
    done = up(tmp_path / "data", "-f", write(tmp_path / "a.yaml", NAMESPACE))
    assert "1 object: 1 created" in done.stdout.splitlines()


def test_once_fails_when_time_runs_out(files, tmp_path):
    done = up(tmp_path / "data", "-f", files, "--timeout", "0")
    assert done.returncode == 1
    assert done.stderr.startswith("error: not settled after 0 s: ")


def one_line(done, *words):
    """Check that a run ended with one line that has these words, before it told anybody where it is."""
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ")
    assert all(word in done.stderr for word in words), done.stderr


def test_a_bad_file_starts_nothing(files, tmp_path):
    data = tmp_path / "data"
    bad = write(tmp_path / "bad.yaml", {"apiVersion": "v1", "kind": "Harbour", "metadata": {"name": "x"}})
    one_line(up(data, "-f", files, "-f", bad), f"{bad}: document 1: kind: ", "Harbour")
    assert not data.exists()


def test_a_port_in_use(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        one_line(up(tmp_path / "data", "--https-port", port), f"127.0.0.1:{port}", "in use", "https_port")
    assert not (tmp_path / "data" / "kubeconfig").exists()


def test_a_data_folder_of_a_newer_version(tmp_path):
    data = tmp_path / "data"
    assert up(data).returncode == 0
    with sqlite3.connect(data / "hub.db") as database:
        database.execute("PRAGMA user_version = 9999")
    database.close()
    one_line(up(data), str(data / "hub.db"), "newer")


@pytest.mark.parametrize("place", ["file/data", "/sys/harbormaster"])
def test_a_data_folder_that_cannot_be_made(tmp_path, place):
    (tmp_path / "file").write_text("")
    data = tmp_path / place
    one_line(up(data), f"data folder {data}", "--data")


@contextmanager
def running(data, *arguments):
    """Have it up, at rest; what is left of it in the end is killed."""
    command = [PROGRAM, "up", "--data", str(data), *ANY_PORTS, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("Up until"):
                    break
            yield process
        finally:
            process.kill()
            process.communicate()


def client(data, *arguments):
    environment = {**os.environ, "HARBORMASTER_DATA": str(data)}
    return subprocess.run(
        [PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=False, env=environment
    )


def test_clients_find_it_and_it_explains(files, tmp_path):
    data = tmp_path / "data"
    with running(data, "-f", files):
        assert "dover" in client(data, "get", "cluster").stdout
        assert (data / "kubeconfig").stat().st_mode & 0o077 == 0
        words = client(data, "explain", "crp/web", "dover", "faro").stdout
        assert "dover: stays" in words
        assert "preference 1, weight 40: kubernetes-fleet.io/node-count is 2" in words
        answer = json.loads(client(data, "explain", "crp/web", "-o", "json").stdout)
        assert {item["cluster"] for item in answer["items"]} == {"dover", "faro"}
        assert "nope" in client(data, "explain", "crp/nope").stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_clients_are_told_how_to_start_it_again(tmp_path, number):
    with running(tmp_path) as process:
        process.send_signal(number)
        assert process.wait(30) == 0
        assert process.stderr.read() == ""
    done = client(tmp_path, "get", "crp")
    assert done.returncode == 1
    assert done.stderr.endswith("start a hub with: harbormaster up, or name another hub: --kubeconfig FILE\n")


def test_killed_it_leaves_an_address_where_nobody_is(tmp_path):
    with running(tmp_path) as process:
        process.kill()
        process.wait(30)
    done = client(tmp_path, "get", "crp")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "connection refused; start a hub with: harbormaster up" in done.stderr


def test_a_signal_while_it_is_settling_ends_it(tmp_path):
    """Nothing can settle here: the member is slow to take anything up."""
    slow = {"harbormaster.dev/simulate-apply": "slow=1h"}
    files = write(tmp_path / "a.yaml", NAMESPACE, member("dover", annotations=slow), placement())
    data = tmp_path / "data"
    command = [PROGRAM, "up", "--data", str(data), *ANY_PORTS, "-f", files]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "objects:" in line:
                break
        time.sleep(0.2)
        process.terminate()
        assert process.wait(30) == 0
        process.communicate()
