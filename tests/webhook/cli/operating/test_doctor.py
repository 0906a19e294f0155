"""``harbormaster doctor``, but for the hub: `e2e/cli/test_doctor.py` asks a real one."""

import json

import pytest

from webhook.cli.operating import doctor
from webhook.doctor.agent_account import CHECK as AGENT_ACCOUNT
from webhook.doctor.finding import Finding, State, judged, unchecked


@pytest.fixture
def found(monkeypatch):
    """Return a function that says what the next call finds on its hub."""

    def say(*findings: Finding):
        async def examine(*_):
            checks = [each.document() | {"milliseconds": 7} for each in findings]
            return {"well": all(each.state is State.OK for each in findings), "checks": checks}

        monkeypatch.setattr(doctor, "_examine", examine)

    return say


WELL = judged("hub", (), "Kubernetes v1.36.3")


def test_all_is_well(cli, found):
    found(WELL, judged("leader", (), "pod-1 leads"))
    done = cli("doctor")
    assert (done.exit_code, done.stdout) == (
        0,
        "[ok] hub            Kubernetes v1.36.3 (7 ms)\n[ok] leader         pod-1 leads (7 ms)\n",
    )


def test_one_problem_stands_in_the_line_and_what_to_do_below(cli, found):
    found(WELL, judged("leader", ["nobody leads"], "", "start it"))
    done = cli("doctor")
    assert done.exit_code == 1
    assert done.stdout.splitlines()[1:] == ["[!!] leader         nobody leads (7 ms)", "     → start it"]


def test_several_problems_stand_below(cli, found):
    found(judged("agent-versions", ["berlin is old", "paris\x1b[2J is old"], "", "upgrade"))
    assert cli("doctor").stdout.splitlines() == [
        "[!!] agent-versions 2 problems (7 ms)",
        "     - berlin is old",
        "     - paris\N{REPLACEMENT CHARACTER}[2J is old",
        "     → upgrade",
    ]


@pytest.mark.parametrize(
    ("advice", "shown"),
    [
        pytest.param(
            "harbormaster crds | kubectl apply -f -    (with Helm: helm upgrade)",
            "harbormaster crds | kubectl apply --kubeconfig 'a b' --context hub -f -    "
            "(with Helm: helm upgrade --kubeconfig 'a b' --kube-context hub)",
            id="kubectl-and-helm",
        ),
        pytest.param(
            "harbormaster certs inspect; see docs",
            "harbormaster certs inspect --kubeconfig 'a b' --context hub; see docs",
            id="harbormaster",
        ),
        pytest.param("is `harbormaster serve` running?", "is `harbormaster serve` running?", id="a-name"),
        pytest.param(
            "run on the member: kubectl get appliedwork && kubectl delete appliedwork NAME",
            "run on the member: kubectl get appliedwork && kubectl delete appliedwork NAME",
            id="on-the-member",
        ),
        pytest.param("helm upgrade harbormaster-agent …", "helm upgrade harbormaster-agent …", id="chart-of-members"),
    ],
)
def test_commands_to_copy_use_the_same_hub(cli, found, advice, shown):
    found(judged("leader", ["no leader"], "", advice))
    done = cli("doctor", "--kubeconfig", "a b", "--context", "hub")
    assert done.stdout.splitlines()[-1] == f"     → {shown}"
    document = json.loads(cli("doctor", "--kubeconfig", "a b", "--context", "hub", "-o", "json").stdout)
    assert document["checks"][0]["advice"] == shown


def test_commands_to_copy_use_the_same_member(cli, found):
    found(judged(AGENT_ACCOUNT, ["no rights"], "", "harbormaster rbac agent | kubectl apply -f -"))
    done = cli("doctor", "--context", "hub", "--member-context", "berlin")
    assert done.stdout.endswith("→ harbormaster rbac agent | kubectl apply --context berlin -f -\n")


def test_a_single_problem_names_the_same_hub(cli, found):
    found(judged("installation", ["To install it: helm install harbormaster"], ""))
    done = cli("doctor", "--context", "hub")
    assert "To install it: helm install --kube-context hub harbormaster" in done.stdout


def test_what_is_not_checked_is_not_well(cli, found):
    found(WELL, unchecked("policies", "you may not list them"))
    done = cli("doctor")
    assert (done.exit_code, done.stdout.splitlines()[1]) == (
        1,
        "[??] policies       not checked: you may not list them (7 ms)",
    )


def test_programs_get_json(cli, found):
    found(judged("leader", ["nobody leads"], "", "start it"))
    done = cli("doctor", "-o", "json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["checks"] == [
        {
            "check": "leader",
            "state": "wrong",
            "found": "1 problem",
            "problems": ["nobody leads"],
            "advice": "start it",
            "milliseconds": 7,
        }
    ]


def test_the_hub_of_up_has_nothing_to_look_at(cli, hub):
    done = cli("doctor")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "Select another hub with --context NAME or --kubeconfig FILE" in done.stderr


@pytest.fixture
def nowhere(tmp_path):
    """A kubeconfig that leads to nobody."""
    path = tmp_path / "nowhere.kubeconfig"
    path.write_text(
        json.dumps(
            {
                "current-context": "hub",
                "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "me"}}],
                "clusters": [{"name": "hub", "cluster": {"server": "https://127.0.0.1:9"}}],
                "users": [{"name": "me", "user": {"token": "x"}}],
            }
        )
    )
    return path


def test_a_hub_that_does_not_answer_is_an_error(cli, nowhere):
    done = cli("doctor", f"--kubeconfig={nowhere}")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "does not answer GET /version" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["--member-context=paris"], "has no context 'paris', available: hub", id="context"),
        pytest.param(["--member-kubeconfig=nowhere"], "kubeconfig nowhere: no such file or directory", id="kubeconfig"),
    ],
)
def test_a_member_that_is_not_there_is_told_before_anything_is_asked(cli, tmp_path, words, said):
    cluster, context = {"server": "https://127.0.0.1:1"}, {"cluster": "c", "user": "u"}
    document = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "hub", "context": context}],
        "current-context": "hub",
    }
    (tmp_path / "config").write_text(json.dumps(document), encoding="utf-8")
    done = cli("doctor", f"--kubeconfig={tmp_path / 'config'}", *words)
    assert (done.exit_code, done.stdout) == (1, "")
    assert said in done.stderr
