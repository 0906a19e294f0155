"""``up`` as a command: what it prints, how it stops, and how it fails before it has started anything."""

import json
import os
import signal
import socket
import sqlite3

import pytest

from tests.waiting import PATIENCE_SECONDS
from tests.webhook.cli.fleets import by_nodes, member, placement, write
from tests.webhook.cli.terminal import ANY_PORTS, started

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}


@pytest.fixture
def up(cli):
    """Return a function that runs ``up --once`` in this process."""
    return lambda data, *arguments: cli("up", "--data", data, *ANY_PORTS, "--once", *arguments)


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


def test_once_prints_addresses_and_where_everything_went(up, files, tmp_path):
    done = up(tmp_path / "data", "-f", files)
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines[:8]] == ["page", "auth", "https", "CA", "token", "data", "try", "or"]
    assert lines[7] == f"or:    kubectl --kubeconfig {tmp_path / 'data' / 'kubeconfig'} get crp"
    assert "6 objects: 6 created" in lines
    table = lines[lines.index(next(line for line in lines if line.startswith("PLACEMENT"))) :]
    assert [row.split()[:6] for row in table[:3]] == [
        ["PLACEMENT", "TYPE", "WANTED", "PICKED", "AVAILABLE", "STATE"],
        ["crp/much", "PickN", "3", "2", "2", "short"],
        ["crp/web", "PickN", "1", "1", "1", "available"],
    ]
    assert "found 2 of 3 clusters needed" in table[1]
    assert lines[-1].startswith(f"Stopped. The state is kept in {tmp_path / 'data'}. ")
    assert lines[-1].endswith(f"harbormaster up --data {tmp_path / 'data'}")


def test_commands_to_copy_start_with_the_name_of_the_plugin(cli, tmp_path):
    done = cli("up", "--data", tmp_path / "data", *ANY_PORTS, "--once", called="kubectl hm")
    assert (done.exit_code, done.stderr) == (0, "")
    assert f"try:   kubectl hm get crp --data {tmp_path / 'data'}" in done.stdout.splitlines()
    assert done.stdout.endswith(f": kubectl hm up --data {tmp_path / 'data'}\n")


def test_once_fails_when_an_object_is_refused_and_places_the_others(up, files, tmp_path):
    bad = write(tmp_path / "bad.yaml", placement("bad", placementType="PickN"))
    done = up(tmp_path / "data", "-f", files, "-f", bad)
    assert done.exit_code == 1
    assert done.stderr.startswith(f'{bad}: document 1: The ClusterResourcePlacement "bad" is invalid: ')
    assert "7 objects: 6 created, 1 refused" in done.stdout
    assert "crp/web" in done.stdout


def test_one_object_is_one(up, tmp_path):
    done = up(tmp_path / "data", "-f", write(tmp_path / "a.yaml", NAMESPACE))
    assert "1 object: 1 created" in done.stdout.splitlines()


def test_once_fails_when_time_runs_out(up, files, tmp_path):
    done = up(tmp_path / "data", "-f", files, "--timeout", "0")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: not settled after 0 s: ")


def one_line(done, *words):
    """Check that a run ended with one line that has these words, before it printed an address."""
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ")
    assert all(word in done.stderr for word in words), done.stderr


def test_a_bad_file_starts_nothing(up, files, tmp_path):
    data = tmp_path / "data"
    bad = write(tmp_path / "bad.yaml", {"apiVersion": "v1", "kind": "Harbour", "metadata": {"name": "x"}})
    one_line(up(data, "-f", files, "-f", bad), f"{bad}: document 1: kind: ", "Harbour")
    assert not data.exists()


def test_a_port_in_use(up, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        one_line(up(tmp_path / "data", "--https-port", port), f"127.0.0.1:{port}", "in use", "--https-port")
    assert not (tmp_path / "data" / "kubeconfig").exists()


def test_a_data_folder_of_a_newer_version(up, tmp_path):
    data = tmp_path / "data"
    assert up(data).exit_code == 0
    with sqlite3.connect(data / "hub.db") as database:
        database.execute("PRAGMA user_version = 9999")
    database.close()
    one_line(up(data), str(data / "hub.db"), "newer")


@pytest.mark.parametrize("place", ["file/data", "/sys/harbormaster"])
def test_a_data_folder_that_cannot_be_made(up, tmp_path, place):
    (tmp_path / "file").write_text("")
    data = tmp_path / place
    one_line(up(data), f"data folder {data}", "--data")


@pytest.mark.parametrize("asks", [True, False], ids=["token", "open"])
def test_who_can_read_the_page_is_printed_and_is_a_setting(up, tmp_path, monkeypatch, asks):
    if asks:
        monkeypatch.setenv("HARBORMASTER_PAGE_ON_HTTP", "false")
    page, look = up(tmp_path / "data").stdout.splitlines()[:2]
    assert page.split()[1].startswith("https:" if asks else "http:")
    assert look.startswith("auth:  token" if asks else "auth:  none: open to all users of this machine")


def test_clients_find_it_until_a_signal_stops_it(cli, files, tmp_path, monkeypatch):
    data = tmp_path / "data"
    monkeypatch.setenv("HARBORMASTER_DATA", str(data))
    with started(data, "-f", files, until="Press Ctrl-C") as process:
        assert "dover" in cli("get", "cluster").stdout
        assert (data / "kubeconfig").stat().st_mode & 0o077 == 0
        words = cli("explain", "crp/web", "dover", "faro").stdout
        assert "dover: kept" in words
        assert "preference 1, weight 40: kubernetes-fleet.io/node-count is 2" in words
        answer = json.loads(cli("explain", "crp/web", "-o", "json").stdout)
        assert {item["cluster"] for item in answer["items"]} == {"dover", "faro"}
        assert "nope" in cli("explain", "crp/nope").stderr
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 0
        assert process.stderr.read() == ""
    done = cli("get", "crp")
    assert done.exit_code == 1
    assert done.stderr.endswith("Start a hub with: harbormaster up, or name another hub: --kubeconfig FILE\n")


def test_a_signal_while_it_is_settling_ends_it(tmp_path):
    """Nothing can settle here: the member is slow to take anything up."""
    slow = {"harbormaster.dev/simulate-apply": "slow=1h"}
    files = write(tmp_path / "a.yaml", NAMESPACE, member("dover", annotations=slow), placement())
    with started(tmp_path / "data", "-f", files, until="objects:") as process:
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
