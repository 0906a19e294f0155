"""The kubelet of the tests, under a real API server, its controllers and its scheduler.

That Deployments come up and are upgraded behind a Service is seen in `e2e/packaging/test_installation.py`, drains in
`e2e/soak`.
"""

import itertools
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.controlplane.cluster import ApiError, JsonObject
from e2e.fleet.waiting import wait_until
from e2e.kubelet.bed import Bed
from e2e.kubelet.network import BRIDGE, GATEWAY, own_network
from e2e.kubelet.scene import (
    GRACE,
    OWN,
    PROBE_TIMEOUT,
    Home,
    ask,
    ask_pod,
    hosts_behind,
    make_container,
    make_variables,
    names,
    processes_with,
)

NUMBERS = itertools.count()
WRITABLE = [{"name": "scratch", "emptyDir": {}}]


@pytest.fixture
def home(bed: Bed) -> Iterator[Home]:
    found = Home(bed, f"home-{next(NUMBERS)}")
    yield found
    bed.cluster.request("DELETE", f"/api/v1/namespaces/{found.name}")


def behind(home: Home, name: str, wanted: set[str]) -> None:
    """Wait until exactly the Pods *wanted* answer at a Service."""
    address = home.address(name)

    def problem() -> str:
        found = hosts_behind(address)
        return "" if found == wanted else f"{sorted(found)} answer, not {sorted(wanted)}"

    wait_until(f"{sorted(wanted)} are behind {name}", problem)


def test_the_bridge_keeps_its_address_when_the_pod_with_the_lowest_ends():
    """Else the Pods that remain lose the hub for up to a minute: they send to the address from before."""
    with own_network():
        before = link_address()
        for words in (
            "add lowest address 02:00:00:00:00:00 type veth peer name lowest-peer",
            f"set lowest master {BRIDGE} up",
            "del lowest",
        ):
            subprocess.run(["ip", "link", *words.split()], check=True)
            assert link_address() == before


def link_address() -> str:
    """The address of the bridge in the link layer."""
    found = subprocess.run(["ip", "-json", "link", "show", BRIDGE], check=True, capture_output=True)
    return str(json.loads(found.stdout)[0]["address"])


@pytest.mark.parametrize("name", ["web", "web.{home}", "web.{home}.svc", "web.{home}.svc.cluster.local"])
def test_a_service_has_its_names_in_every_pod_of_its_namespace(served, name):
    home, pod = served
    assert ask_pod(pod, f"/fetch?http://{name.format(home=home.name)}/")["host"] == "web"


@pytest.fixture(scope="module")
def served(bed: Bed) -> tuple[Home, JsonObject]:
    """A Pod behind a Service of its own name."""
    home = Home(bed, "served")
    home.put("services", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]})
    home.run("web")
    pod = home.wait_ready("web")
    behind(home, "web", {"web"})
    wait_until("the name is known", lambda: "" if "web.served" in str(ask_pod(pod, "/file?/etc/hosts")) else "no name")
    return home, pod


def test_a_pod_has_a_network_and_a_process_tree_of_its_own(served):
    _, pod = served
    assert ask_pod(pod, "/ids")["pid"] == 1
    assert ask_pod(pod, "/fetch?http://127.0.0.1:8080/")["host"] == "web"
    with pytest.raises(OSError, match="refused"):
        ask("127.0.0.1", port=8080)


def test_its_token_and_the_authority_are_good_for_the_api_server(served):
    _, pod = served
    user = ask_pod(pod, "/whoami")
    assert user["username"] == "system:serviceaccount:served:default"
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["web"]


def test_a_pod_that_ends_answers_while_its_hook_runs(home):
    scratch = [{"name": "scratch", "mountPath": "/scratch"}]
    until_told = ["sh", "-c", "until [ -e /scratch/go ]; do sleep 0.1; done"]
    hook = {"preStop": {"exec": {"command": until_told}}}
    web = make_container(lifecycle=hook, volumeMounts=scratch)
    home.run("web", web, volumes=WRITABLE, terminationGracePeriodSeconds=3 * GRACE)
    pod = home.wait_ready("web")
    home.put("services", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]})
    behind(home, "web", {"web"})
    home.delete("web")
    wait_until("it is to end", lambda: "" if "deletionTimestamp" in home.pod("web")["metadata"] else "not yet")
    behind(home, "web", {"web"})  # it serves, and no other does
    assert ask_pod(pod, "/write?/scratch/go") == ""
    home.wait_gone("web")
    behind(home, "web", set())


def test_a_failing_liveness_probe_restarts_the_container(bed, home):
    alive = {"httpGet": {"path": "/alive", "port": 8080}, "periodSeconds": 1, "failureThreshold": 2}
    alive["timeoutSeconds"] = PROBE_TIMEOUT
    home.run("web", make_container(livenessProbe=alive))
    pod = home.wait_ready("web")
    ask_pod(pod, "/break?/alive")
    status = home.wait_restarts("web", 1)
    assert status["lastState"]["terminated"]["exitCode"] == 0
    assert home.wait_ready("web")["metadata"]["uid"] == pod["metadata"]["uid"]
    assert "SIGTERM" in bed.log(pod, "web", run=0)

    def unreported() -> str:
        events, words = home.events("web"), "Container web failed livenessProbe, will be restarted"
        return "" if any(words in event for event in events) else str(events)

    wait_until("an Event reports the failure", unreported)  # the kubelet writes Events in the background


def test_a_failing_readiness_probe_removes_the_endpoint_until_it_succeeds(bed, home):
    home.deploy("web", make_container())
    first, second = bed.ready_pods(home.name, app="web")
    ask_pod(first, "/break?/ready")
    behind(home, "web", names([second]))
    ask_pod(second, "/break?/ready")
    behind(home, "web", set())
    ask_pod(first, "/mend?/ready")
    behind(home, "web", names([first]))


def test_a_startup_probe_holds_back_the_others(home):
    started = {"exec": {"command": ["test", "-e", "/scratch/started"]}, "periodSeconds": 1, "failureThreshold": 600}
    started["timeoutSeconds"] = PROBE_TIMEOUT
    alive = {"httpGet": {"path": "/", "port": 1}, "periodSeconds": 1, "failureThreshold": 1}
    web = make_container(
        startupProbe=started, livenessProbe=alive, volumeMounts=[{"name": "scratch", "mountPath": "/scratch"}]
    )
    home.run("web", web, volumes=WRITABLE)
    status = home.wait_status("web", "phase", value="Running")["containerStatuses"][0]
    assert (status["started"], status["restartCount"]) == (False, 0)
    wait_until("it answers", lambda: "" if ask_pod(home.pod("web")) else "no answer")
    assert not home.pod("web")["status"]["containerStatuses"][0]["ready"]
    assert ask_pod(home.pod("web"), "/write?/scratch/started") == ""
    home.wait_restarts("web", 1)  # now the liveness probe counts


@pytest.mark.parametrize(
    ("variables", "grace", "code"),
    [
        pytest.param({}, GRACE, 0, id="asked-and-ended"),
        pytest.param({"DEAF": "1"}, 10, 137, id="killed-when-the-grace-is-over"),
    ],
)
def test_a_deleted_pod_gets_sigterm_and_its_grace(bed, home, variables, grace, code):
    held = {"finalizers": ["tests.example.com/keep"]}
    home.run("web", make_container(env=make_variables(**variables)), metadata=held, terminationGracePeriodSeconds=grace)
    pod = home.wait_ready("web")
    home.delete("web")
    home.wait_status("web", "containerStatuses", 0, "state", "terminated", "exitCode", value=code)
    assert bed.log(pod, "web").count("SIGTERM") == 1
    bed.patch(home.core("pods", "web"), {"metadata": {"finalizers": None}})
    home.wait_gone("web")


def test_an_eviction_waits_for_the_budget(bed, home):
    home.deploy("web", make_container())
    path = f"/apis/policy/v1/namespaces/{home.name}/poddisruptionbudgets"
    budget = {"metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}}
    bed.cluster.request("POST", path, budget)
    first, second = bed.ready_pods(home.name, app="web")

    def other_than(allowed: int) -> str:
        status = bed.cluster.request("GET", f"{path}/web")[0]["status"]
        return "" if (status.get("disruptionsAllowed"), status.get("currentHealthy")) == (allowed, 2) else str(status)

    wait_until("none may go", lambda: other_than(0))
    with pytest.raises(ApiError, match="disruption budget"):
        evict(home, first)
    bed.patch(f"{path}/web", {"spec": {"minAvailable": 1}})
    wait_until("one may go", lambda: other_than(1))
    evict(home, first)
    home.wait_gone(first["metadata"]["name"])
    bed.wait_rolled_out(home.name, "web")
    assert names([second]) < names(bed.ready_pods(home.name, app="web"))


def evict(home: Home, pod: JsonObject) -> None:
    name = pod["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": home.name}}
    home.bed.cluster.request("POST", f"{home.core('pods', name)}/eviction", body)


def test_the_environment_has_all_that_it_refers_to(home):
    home.put("configmaps", "settings", data={"COLOUR": "blue", "size": "3"})
    home.put("secrets", "keys", stringData={"KEY": "k1"})
    variables = [
        *make_variables(PLAIN="a $(COLOUR) $$(COLOUR) $(NOT_THERE)"),
        {"name": "MY_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "MY_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "MY_NODE", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
        {"name": "MY_TEAM", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}},
        {"name": "SIZE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "size"}}},
        {"name": "MAYBE", "valueFrom": {"secretKeyRef": {"name": "none", "key": "x", "optional": True}}},
        {"name": "MIB", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
    ]
    sources = [{"configMapRef": {"name": "settings"}}, {"prefix": "SECRET_", "secretRef": {"name": "keys"}}]
    web = make_container(env=variables, envFrom=sources, resources={"limits": {"memory": "65M"}})
    home.run("web", web, metadata={"labels": {"team": "harbour"}})
    pod = home.wait_ready("web")
    found = ask_pod(pod, "/env")
    wanted = {
        "PLAIN": "a blue $(COLOUR) $(NOT_THERE)",
        "MY_NAME": "web",
        "MY_ADDRESS": pod["status"]["podIP"],
        "MY_NODE": GATEWAY,
        "MY_TEAM": "harbour",
        "SIZE": "3",
        "MIB": "62",
        "COLOUR": "blue",
        "SECRET_KEY": "k1",
        "HOSTNAME": "web",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
    }
    assert {name: found.get(name) for name in wanted} == wanted
    assert "MAYBE" not in found


def test_volumes_follow_their_sources_and_parts_of_them_do_not(home):
    home.put("configmaps", "settings", data={"a": "1", "b": "2"})
    home.put("secrets", "keys", stringData={"key": "k1"})
    sources = [
        {"configMap": {"name": "settings", "items": [{"key": "a", "path": "deep/a"}]}},
        {"secret": {"name": "keys", "items": [{"key": "key", "path": "key", "mode": 0o400}]}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"serviceAccountToken": {"path": "token", "audience": "harbour", "expirationSeconds": 600}},
    ]
    volumes = [
        {"name": "settings", "configMap": {"name": "settings", "defaultMode": 0o640}},
        {"name": "all", "projected": {"sources": sources}},
    ]
    mounts = [
        {"name": "settings", "mountPath": "/etc/not/there/settings"},
        {"name": "settings", "mountPath": "/etc/one", "subPath": "a"},
        {"name": "all", "mountPath": "/all"},
    ]
    context = {"fsGroup": 4000, "runAsUser": 3000}
    home.run("web", make_container(volumeMounts=mounts), volumes=volumes, securityContext=context)
    pod = home.wait_ready("web")
    assert ask_pod(pod, "/file?/etc/not/there/settings/a") == {"content": "1", "mode": "0o640", "group": 4000}
    assert ask_pod(pod, "/file?/all/deep/a")["content"] == "1"
    assert ask_pod(pod, "/file?/all/key") == {"content": "k1", "mode": "0o440", "group": 4000}
    assert ask_pod(pod, "/file?/all/labels")["content"].splitlines()[0] == 'app="web"'
    assert ask_pod(pod, "/file?/all/token")["content"].count(".") == 2
    assert ask_pod(pod, "/write?/all/new") != ""

    home.bed.patch(home.core("configmaps", "settings"), {"data": {"a": "one", "b": None}})

    def old() -> str:
        return "" if ask_pod(pod, "/file?/etc/not/there/settings/a")["content"] == "one" else "not yet"

    wait_until("the file follows", old)
    assert "No such file" in ask_broken(pod, "/file?/etc/not/there/settings/b")
    assert ask_pod(pod, "/file?/etc/one")["content"] == "1"


def ask_broken(pod: JsonObject, path: str) -> str:
    """What the server says that went wrong."""
    with pytest.raises(OSError, match="502") as caught:
        ask_pod(pod, path)
    assert hasattr(caught.value, "read")
    return str(caught.value.read().decode())


def test_a_restricted_container_can_change_nothing_but_its_volumes(home):
    context = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
    }
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    web = make_container(securityContext=context, volumeMounts=mounts, workingDir="/etc")
    whole = {"runAsUser": 3000, "runAsGroup": 3001, "fsGroup": 4000}
    home.run("web", web, volumes=WRITABLE, securityContext=whole)
    pod = home.wait_ready("web")
    for path in ("/x", "/tmp/x", "/run/x", "/etc/x"):
        assert ask_pod(pod, f"/write?{path}") == "Read-only file system", path
    assert ask_pod(pod, "/write?/scratch/x") == ""
    assert ask_pod(pod, "/file?/scratch/x")["group"] == 4000
    assert ask_pod(pod, "/ids") == {
        "pid": 1,
        "user": 3000,
        "group": 3001,
        "groups": [4000],
        "bounds": "0" * 16,
        "no_new_privs": "1",
        "folder": "/etc",
    }


def test_what_a_container_writes_to_its_root_stays_there(home):
    whole = {"runAsUser": 0}
    home.run("web", securityContext=whole)
    pod = home.wait_ready("web")
    assert ask_pod(pod, "/write?/written-by-a-container") == ""
    assert ask_pod(pod, "/file?/written-by-a-container")["content"] == "here"
    assert not Path("/written-by-a-container").exists()


def test_a_container_that_ends_is_started_again_with_pauses(bed, home):
    home.run("fails", make_container(command=["sh", "-c", "echo over; exit 3"]))
    assert home.wait_restarts("fails", 2)["lastState"]["terminated"]["exitCode"] == 3
    home.wait_status("fails", "containerStatuses", 0, "state", "waiting", "reason", value="CrashLoopBackOff")
    assert bed.log(home.pod("fails"), "web", run=1) == "over\n"


def test_a_pod_of_one_run_ends_as_its_containers_do_and_after_its_first_ones(home):
    marks = [{"name": "scratch", "mountPath": "/scratch"}]
    first = make_container("first", command=["sh", "-c", "echo 1 > /scratch/mark"], volumeMounts=marks)
    del first["readinessProbe"]
    main = make_container(command=["sh", "-c", "test -e /scratch/mark"], volumeMounts=marks)
    home.run("good", main, initContainers=[first], restartPolicy="Never", volumes=WRITABLE)
    home.run("bad", main, restartPolicy="Never", volumes=WRITABLE)
    home.wait_status("good", "phase", value="Succeeded")
    home.wait_status("bad", "phase", value="Failed")


def test_the_program_of_this_project_is_an_image(bed, home):
    context = {"readOnlyRootFilesystem": True, "runAsNonRoot": True}
    words = make_container(image=OWN, args=["--version"], readinessProbe=None, securityContext=context)
    home.run("own", words, restartPolicy="Never")
    home.wait_status("own", "phase", value="Succeeded")
    assert bed.log(home.pod("own"), "web").startswith("harbormaster ")


@pytest.mark.parametrize(
    ("changes", "reason", "message"),
    [
        pytest.param({"image": "x:1"}, "ImagePullBackOff", "no image 'x:1'", id="image"),
        pytest.param(
            {"envFrom": [{"secretRef": {"name": "none"}}]},
            "CreateContainerConfigError",
            "secrets 'none' not found",
            id="secret",
        ),
        pytest.param(
            {"securityContext": {"runAsUser": 0, "runAsNonRoot": True}},
            "CreateContainerConfigError",
            "container has runAsNonRoot and image will run as root",
            id="root",
        ),
        pytest.param(
            {"lifecycle": {"postStart": {"exec": {"command": ["true"]}}}},
            "CreateContainerConfigError",
            "this kubelet does not know spec.containers[0].lifecycle.postStart",
            id="unsupported",
        ),
    ],
)
def test_what_cannot_be_started_says_why(home, changes, reason, message):
    home.run("web", make_container(**changes))
    status = home.wait_status("web", "containerStatuses", 0, "state", "waiting", "reason", value=reason)
    assert status["containerStatuses"][0]["state"]["waiting"]["message"] == message
    assert status["phase"] == "Pending"


def test_nothing_that_a_deleted_pod_has_begun_goes_on(home):
    sleeping = make_container(command=["sh", "-c", "sleep 98765 & exec sleep 98765"], readinessProbe=None)
    home.run("web", sleeping, terminationGracePeriodSeconds=1)
    home.wait_ready("web")
    wait_until("both sleep", lambda: "" if len(processes_with("98765")) >= 2 else "not both")
    home.delete("web")
    home.wait_gone("web")
    assert processes_with("98765") == []
