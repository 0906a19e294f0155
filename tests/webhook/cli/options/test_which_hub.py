"""Which hub a command asks, where there are two: that of ``up``, and the one that kubectl would ask."""

import pytest
import yaml

from scorer.api.kinds import KINDS, PLACEMENT
from tests.webhook.cli.conftest import TOKEN, running_hub
from tests.webhook.cli.fleets import placement, write
from webhook.cli.errors import UserError
from webhook.cli.options.hub import HubOptions
from webhook.kube.ports import Key, NotFoundError

PLUGIN = "kubectl harbormaster"
CONFIG_MAP = KINDS["", "ConfigMap"]
CRP = "clusterresourceplacement.placement.kubernetes-fleet.io"


def kubeconfig(path, *contexts, current=None):
    """Write a kubeconfig with contexts (name, hub, namespace); the user and the cluster are of the context's name."""
    document = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
    for name, hub, namespace in contexts:
        cluster = {"server": hub.url, "certificate-authority": str(hub.data / "ca.crt")}
        document["clusters"].append({"name": name, "cluster": cluster})
        document["users"].append({"name": name, "user": {"token": TOKEN}})
        context = {"cluster": name, "user": name} | ({"namespace": namespace} if namespace else {})
        document["contexts"].append({"name": name, "context": context})
    if current:
        document["current-context"] = current
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
def theirs(tmp_path, hub, monkeypatch, cli):
    """Yield the hub of the kubeconfig; both hubs have a placement ``web``, and a ConfigMap in ``shop``."""
    with running_hub(tmp_path / "theirs") as found:
        file = kubeconfig(tmp_path / "config", ("prod", found, "shop"), ("ours", hub, ""), current="prod")
        monkeypatch.setenv("KUBECONFIG", str(file))
        monkeypatch.setenv("HARBORMASTER_DATA", str(hub.data))
        for each, size in ((hub, 1), (found, 2)):
            web = placement("web", placementType="PickN", numberOfClusters=size)
            each.run(each.store.create(PLACEMENT, web))
            boat = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "boat", "namespace": "shop"}}
            each.run(each.store.create(CONFIG_MAP, boat))
        yield found


def wanted(hub):
    """Return how many clusters ``web`` wants on a hub; None when it is gone."""
    try:
        return hub.run(hub.store.get(PLACEMENT, Key("web")))["spec"]["policy"]["numberOfClusters"]
    except NotFoundError:
        return None


def test_the_plugin_shows_what_is_on_the_hub_of_the_context(cli, hub, theirs):
    words = ("get", "crp", "web", "-o", "yaml")
    shown = cli(*words, called=PLUGIN)
    assert yaml.safe_load(shown.stdout)["spec"]["policy"]["numberOfClusters"] == 2
    assert shown.stderr.startswith(f'using {theirs.url} (context "prod" of ')
    assert f"For the hub of harbormaster up: --data {hub.data}" in shown.stderr
    other = cli(*words, "--context", "ours", called=PLUGIN)
    assert yaml.safe_load(other.stdout)["spec"]["policy"]["numberOfClusters"] == 1
    assert other.stderr == ""  # it was said which hub is meant
    named = cli(*words, "--data", hub.data, called=PLUGIN)
    assert yaml.safe_load(named.stdout)["spec"]["policy"]["numberOfClusters"] == 1


def test_the_plugin_deletes_on_the_hub_of_the_context_alone(cli, hub, theirs):
    done = cli("delete", "crp/web", called=PLUGIN)
    assert (done.exit_code, done.stdout) == (0, f"{CRP}/web deleted\n")
    assert (wanted(hub), wanted(theirs)) == (1, None)


def test_the_plugin_applies_and_edits_on_the_hub_of_the_context_alone(cli, hub, theirs, tmp_path, monkeypatch):
    file = write(tmp_path / "web.yaml", placement("web", placementType="PickN", numberOfClusters=3))
    assert cli("apply", "-f", file, called=PLUGIN).stdout == f"{CRP}/web configured\n"
    assert (wanted(hub), wanted(theirs)) == (1, 3)
    monkeypatch.setenv("EDITOR", "sed -i 's/numberOfClusters: 3/numberOfClusters: 4/'")
    assert cli("edit", "crp/web", called=PLUGIN).stdout == f"{CRP}/web edited\n"
    assert (wanted(hub), wanted(theirs)) == (1, 4)
    assert cli("delete", "-f", file, called=PLUGIN).exit_code == 0
    assert (wanted(hub), wanted(theirs)) == (1, None)


def test_the_namespace_is_that_of_the_context(cli, theirs):
    assert cli("get", "cm", "-o", "name", called=PLUGIN).stdout == "configmap/boat\n"
    assert cli("get", "cm", "-o", "name").stdout == ""  # the namespace "default" of the other hub
    assert cli("delete", "cm/boat", "-n", "default", called=PLUGIN).exit_code == 1
    assert cli("delete", "cm/boat", called=PLUGIN).exit_code == 0


def test_by_its_own_name_the_program_asks_the_hub_of_up_and_says_so(cli, hub, theirs):
    done = cli("delete", "crp/web")
    assert (wanted(hub), wanted(theirs)) == (None, 2)
    assert done.stderr == (
        f'using {hub.url}, the hub of harbormaster up. For {theirs.url} (context "prod" of '
        f"{hub.data.parent / 'config'}): --context prod\n"
    )


@pytest.mark.parametrize("called", ["harbormaster", PLUGIN])
def test_the_kubeconfig_of_up_names_the_same_hub_for_both(cli, hub, monkeypatch, called):
    """Nothing is to be told where both are one; and questions go to the hub, which an API server would not know."""
    monkeypatch.setenv("KUBECONFIG", str(hub.data / "kubeconfig"))
    hub.run(hub.store.create(PLACEMENT, placement("web")))
    shown = cli("get", "crp", "-o", "name", called=called)
    assert (shown.stdout, shown.stderr) == (f"{CRP}/web\n", "")
    asked = cli("explain", "crp/web", called=called)  # this hub knows objects alone, and says so itself
    assert (asked.exit_code, asked.stdout, asked.stderr) == (1, "", "error: HTTP 404\n")


@pytest.mark.parametrize(
    "words",
    [
        ("get", "crp"),
        ("tree", "crp/web"),
        ("delete", "crp/web"),
        ("apply", "-f", "FILE"),
        ("edit", "crp/web"),
        ("explain", "crp/web"),
        ("explain", "crp/web", "--runs"),
        ("plan", "--hub"),
        ("gate", "cluster-update", "dover"),
        ("gate", "rollout", "crp/web", "dover"),
        ("gate", "disruption", "general", "--count", "1", "--reason", "Empty"),
        ("gate", "release", "x"),
        ("budgets", "list"),
        ("budgets", "calendar"),
    ],
    ids=" ".join,
)
def test_no_command_falls_back_on_the_hub_of_up_when_kubectl_knows_none(cli, hub, tmp_path, monkeypatch, words):
    """Every command that asks a hub, also the ones that only ask."""
    file = write(tmp_path / "web.yaml", placement("web"))
    words = [file if word == "FILE" else word for word in words]
    monkeypatch.setenv("HARBORMASTER_DATA", str(hub.data))
    done = cli(*words, called=PLUGIN)
    assert (done.exit_code, done.stdout) == (1, "")
    missing = tmp_path / "home" / ".kube" / "config"
    assert done.stderr == (
        f"error: kubeconfig {missing}: no such file or directory. Give another kubeconfig with --kubeconfig FILE\n"
    )
    unknown = cli(*words, "--kubeconfig", kubeconfig(tmp_path / "config", ("a", hub, "")), "--context", "b")
    assert unknown.stderr == f"error: kubeconfig {tmp_path / 'config'}: has no context 'b', available: a\n"


class TestSeveralFiles:
    """``KUBECONFIG`` with several files: the context that kubectl would take, never another one of that name."""

    @pytest.fixture
    def files(self, hub, tmp_path):
        """Return three files, two of which have a context ``b``."""
        kubeconfig(tmp_path / "1", ("a", hub, "first"))
        kubeconfig(tmp_path / "2", ("b", hub, "second"), current="b")
        kubeconfig(tmp_path / "3", ("b", hub, "third"), ("c", hub, "last"), current="c")
        return {"KUBECONFIG": f"{tmp_path / 'missing'}:{tmp_path / '1'}:{tmp_path / '2'}:{tmp_path / '3'}"}

    @pytest.mark.parametrize(
        ("context", "namespace"), [(None, "second"), ("b", "second"), ("c", "last"), ("a", "first")]
    )
    def test_the_first_that_says_something_counts(self, files, context, namespace):
        assert HubOptions(context=context).find(files, plugin=True).namespace == namespace

    def test_a_context_whose_parts_are_in_several_files_is_refused(self, files, tmp_path):
        document = yaml.safe_load((tmp_path / "1").read_text())
        (tmp_path / "1").write_text(yaml.safe_dump({**document, "clusters": []}))
        with pytest.raises(UserError, match="the cluster 'a' of context 'a' is not in this file"):
            HubOptions(context="a").find(files, plugin=True)

    def test_a_cluster_that_kubectl_would_take_from_another_file_is_refused(self, hub, theirs, tmp_path):
        """As when several clusters were made by kubeadm, and only their contexts were renamed."""
        kubeconfig(tmp_path / "1", ("kubernetes", hub, ""))
        document = yaml.safe_load(kubeconfig(tmp_path / "2", ("kubernetes", theirs, "")).read_text())
        document["contexts"][0]["name"] = "prod"
        (tmp_path / "2").write_text(yaml.safe_dump(document))
        files = {"KUBECONFIG": f"{tmp_path / '1'}:{tmp_path / '2'}"}
        words = "the cluster 'kubernetes' of context 'prod' is also in .*/1 with different content"
        with pytest.raises(UserError, match=words):
            HubOptions(context="prod").find(files, plugin=True)
        named = HubOptions(context="prod", kubeconfig=tmp_path / "2").find(files, plugin=True)
        assert named.server == theirs.url
        (tmp_path / "2").write_text(yaml.safe_dump(yaml.safe_load((tmp_path / "1").read_text())))
        assert HubOptions(context="kubernetes").find(files, plugin=True).server == hub.url


def test_a_hub_that_would_not_be_asked_is_refused(cli, tmp_path):
    file = write(tmp_path / "web.yaml", placement("web"))
    done = cli("explain", "crp/web", "-f", file, "--context", "prod")
    assert done.exit_code != 0
    assert "--context: with -f, the command evaluates the files and uses no hub" in done.stderr


@pytest.mark.parametrize(
    ("cluster", "user", "complaint"),
    [
        pytest.param({}, {}, "cluster 'c': server: must be set", id="no-server"),
        pytest.param(["x"], {}, "cluster 'c': must be an object", id="no-object"),
        pytest.param({"server": 7}, {}, "cluster 'c': server: '7': must be text", id="number-as-server"),
        pytest.param({"server": "https://[::1"}, {}, "server: 'https://[::1': Invalid IPv6 URL", id="open-bracket"),
        pytest.param({"server": "https://a:99999"}, {}, "server: 'https://a:99999': Port out of range", id="port"),
        pytest.param({"server": "not a url"}, {}, "server: 'not a url': expected a URL", id="no-url"),
        pytest.param({"proxy-url": 5}, {}, "cluster 'c': proxy-url: '5': must be text", id="proxy"),
        pytest.param({"tls-server-name": 7}, {}, "cluster 'c': tls-server-name: '7': must be text", id="tls-name"),
        pytest.param({}, {"token": "hush\n"}, "user 'u': token: must not contain line breaks", id="token-of-lines"),
        pytest.param({}, {"as": "jane"}, "user 'u': as: must not be set", id="impersonated-user"),
        pytest.param({}, {"as-groups": ["team"]}, "user 'u': as-groups: must not be set", id="impersonated-groups"),
        pytest.param({}, {"token": 4711}, "user 'u': token: must be text", id="token-of-digits"),
        pytest.param({}, {"username": "a", "password": 4711}, "user 'u': password: must be text", id="password"),
    ],
)
def test_a_field_of_a_kubeconfig_that_cannot_be_used_is_named_in_one_line(cli, tmp_path, cluster, user, complaint):
    if isinstance(cluster, dict) and (cluster or user):
        cluster = {"server": "https://127.0.0.1:1"} | cluster
    document = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(document))
    said = cli("get", "crp", "--kubeconfig", file)
    assert said.exit_code == 1
    assert said.stdout == ""
    assert said.stderr.count("\n") == 1
    assert said.stderr.startswith(f"error: kubeconfig {file}: ")
    assert complaint in said.stderr
    assert "hush" not in said.stderr
    assert "4711" not in said.stderr


@pytest.mark.parametrize("command", ["get", "apply", "delete", "edit"])
def test_the_help_says_that_the_context_has_a_namespace(cli, command):
    said = " ".join(cli(command, "--help").stdout.split())
    assert '[default: that of the kubeconfig\'s context, or "default"]' in said


def test_a_helper_that_is_not_there_is_named(cli, tmp_path):
    helper = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/nonexistent/helper"}
    document = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"exec": helper}}],
    }
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(document))
    assert "/nonexistent/helper: No such file" in cli("get", "crp", "--kubeconfig", file).stderr


def test_a_home_folder_in_kubeconfig_is_for_the_shell_to_find(cli, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "~nosuchuser/config")
    said = cli("get", "crp", called=PLUGIN)
    assert said.exit_code == 1
    assert said.stderr.startswith("error: kubeconfig ~nosuchuser/config: no such file")
