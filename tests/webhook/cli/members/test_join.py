"""`join` and `leave`: what they refuse before they ask a cluster."""

import json

import pytest


@pytest.fixture
def kubeconfig(tmp_path):
    """Two contexts of clusters that do not answer."""
    names = ("hub", "member")
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": "https://127.0.0.1:1"}} for name in names],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "u"}} for name in names],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param(["join", "Berlin"], "NAME: 'Berlin' is not the name of a MemberCluster", id="name"),
        pytest.param(["leave", "a" * 51], "has 51 characters, at most 50 are allowed", id="long-name"),
        pytest.param(["join", "a", "--context=none"], "has no context 'none', available: hub, member", id="context"),
        pytest.param(["leave", "a", "--member-context=none"], "has no context 'none'", id="member-context"),
        pytest.param(["join", "a", "--label=region"], "--label 'region': must be KEY=VALUE", id="label"),
        pytest.param(["join", "a", "--image=a b"], "--image 'a b': must be REPOSITORY:TAG or", id="image"),
        pytest.param(["join", "a", "--apply=boats"], "--apply 'boats' is not a known kind", id="kind"),
        pytest.param(["join", "a", "--hub-server=hub"], "--hub-server 'hub': ", id="address"),
        pytest.param(
            ["join", "a", "--hub-server=https://ann:secret@hub"], "without user, query and fragment", id="user"
        ),
        pytest.param(["join", "a", "--hub-namespace=A"], "namespace: 'A': ", id="namespace"),
        pytest.param(["join", "a", "--kubeconfig=none.yaml"], "kubeconfig none.yaml: no such file", id="file"),
        pytest.param(["join", "a"], "hub (context 'hub'): https://127.0.0.1:1 does not answer GET", id="no-answer"),
        pytest.param(
            ["leave", "a"], "hub (context 'hub'): https://127.0.0.1:1 does not answer GET", id="leave-no-answer"
        ),
    ],
)
def test_what_cannot_be_used_is_named_in_one_line(cli, kubeconfig, words, complaint):
    command, name, *more = words
    done = cli(command, name, "--context=hub", "--member-context=member", f"--kubeconfig={kubeconfig}", *more)
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1


def test_no_member_is_told_to_send_its_token_without_tls(cli, kubeconfig):
    plain = kubeconfig.read_text(encoding="utf-8").replace("https://127.0.0.1:1", "http://127.0.0.1:1")
    kubeconfig.write_text(plain, encoding="utf-8")
    done = cli("join", "a", "--context=hub", "--member-context=member", f"--kubeconfig={kubeconfig}")
    assert done.exit_code == 1
    assert "server 'http://127.0.0.1:1': expected an https URL" in done.stderr
