"""``apply``, ``get``, ``edit`` and ``delete`` against a real hub over TLS."""

import json
import threading

import pytest
import yaml

from scorer.api.kinds import KINDS, MEMBER_CLUSTER, NAMESPACE, PLACEMENT
from tests.builders.condition import condition
from tests.waiting import block_until, until
from tests.webhook.cli.conftest import TOKEN
from tests.webhook.cli.fleets import by_nodes, member, placement, write
from webhook.cli.objects.patcher import LAST_APPLIED
from webhook.cli.text.links import STATE, url_of
from webhook.kube.ports import Key, NotFoundError

CRP = "clusterresourceplacement.placement.kubernetes-fleet.io"


@pytest.fixture
def stored(hub):
    """Return a function that looks into the store."""

    def look(kind, name, namespace=""):
        try:
            return hub.run(hub.store.get(kind, Key(name, namespace)))
        except NotFoundError:
            return None

    return look


NOTHING = ["", "\n", "---\n", "# nothing\n---\n# at all\n", "null", '{"kind": "List", "items": []}']


@pytest.mark.parametrize(
    "words",
    [
        *(["apply"], ["diff"], ["delete"], ["delete", "--ignore-not-found"], ["delete", "--dry-run=server"]),
        *(["validate"], ["plan"], ["lint"], ["upgrade", "plan"]),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("text", NOTHING)
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside-a-file"])
def test_an_empty_standard_input_is_a_mistake(cli, hub, stored, tmp_path, words, text, beside):
    file = write(tmp_path / "a.yaml", placement())
    assert cli("apply", "-f", file).exit_code == 0
    files = ["-f", file, "-f", "-"] if beside else ["-f", "-"]
    result = cli(*words, *files, text=text)
    code = 2 if words == ["diff"] else 1
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", "error: no objects in standard input\n")
    assert stored(PLACEMENT, "web") is not None


@pytest.mark.parametrize("text", NOTHING)
def test_an_empty_standard_input_has_nothing_to_lint(cli, tmp_path, text):
    for paths in (["-"], ["-", write(tmp_path / "a.yaml", placement())]):
        result = cli("lint", *paths, text=text)
        assert (result.exit_code, result.stderr) == (1, "error: no objects in standard input\n")


@pytest.mark.parametrize("command", ["apply", "delete"])
@pytest.mark.parametrize("text", NOTHING)
def test_nothing_at_all_is_a_mistake(cli, hub, tmp_path, command, text):
    """What was to be read has most likely failed: the left end of a pipe."""
    piped = cli(command, "-f", "-", text=text)
    assert (piped.exit_code, piped.stdout, piped.stderr) == (1, "", "error: no objects in standard input\n")
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.yaml").write_text(text)
    for path in (folder, folder / "a.yaml"):
        read = cli(command, "-f", path)
        assert (read.exit_code, read.stdout, read.stderr) == (1, "", f"error: no objects in {path}\n")


class TestApply:
    """``apply``."""

    def test_created_unchanged_configured(self, cli, stored, tmp_path, hub):
        file = tmp_path / "a.yaml"
        write(file, placement(placementType="PickN", numberOfClusters=1, affinity=by_nodes()))
        assert cli("apply", "-f", file).stdout == f"{CRP}/web created\n"
        assert cli("apply", "-f", file).stdout == f"{CRP}/web unchanged\n"
        before = stored(PLACEMENT, "web")["metadata"]["resourceVersion"]
        write(file, placement(placementType="PickN", numberOfClusters=2))
        assert cli("apply", "-f", file).stdout == f"{CRP}/web configured\n"
        policy = stored(PLACEMENT, "web")["spec"]["policy"]
        assert policy == {"placementType": "PickN", "numberOfClusters": 2}  # what is not in the file is gone
        assert stored(PLACEMENT, "web")["metadata"]["resourceVersion"] != before

    def test_the_stored_objects_are_printed_on_request(self, cli, hub, tmp_path):
        one = write(tmp_path / "a.yaml", placement())
        stored = yaml.safe_load(cli("apply", "-f", one, "-o", "yaml").stdout)
        assert (stored["kind"], stored["metadata"]["name"]) == ("ClusterResourcePlacement", "web")
        assert stored["metadata"]["uid"]
        assert json.loads(cli("apply", "-f", one, "-o", "json").stdout)["metadata"]["uid"] == stored["metadata"]["uid"]
        assert cli("apply", "-f", one, "-o", "name").stdout == f"{CRP}/web\n"
        two = write(tmp_path / "b.yaml", placement("a"), placement("b"))
        listing = yaml.safe_load(cli("apply", "-f", two, "--dry-run=server", "-o", "yaml").stdout)
        assert [item["metadata"]["name"] for item in listing["items"]] == ["a", "b"]
        assert cli("apply", "-f", two, "--dry-run=client", "-o", "yaml").stdout.count("kind: ClusterResource") == 2

    def test_what_others_set_stays(self, cli, stored, hub, tmp_path):
        file = write(tmp_path / "a.yaml", placement())
        cli("apply", "-f", file)
        document = stored(PLACEMENT, "web")
        labelled = {**document, "metadata": {**document["metadata"], "labels": {"by": "somebody"}}}
        hub.run(hub.store.replace(PLACEMENT, labelled))
        assert cli("apply", "-f", file).stdout.endswith("unchanged\n")
        assert stored(PLACEMENT, "web")["metadata"]["labels"] == {"by": "somebody"}

    def test_defaults_that_the_hub_fills_in_are_no_change(self, cli, hub, tmp_path):
        """The hub renames metricSorter inside a list; applying the same file again is still no change."""
        affinity = by_nodes()
        (term,) = affinity["clusterAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        term["preference"]["metricSorter"] = term["preference"].pop("propertySorter")
        tolerations = [{"key": "dry-dock", "operator": "Exists"}, {"key": "a", "value": "b"}]
        policy = {"placementType": "PickN", "numberOfClusters": 1, "affinity": affinity, "tolerations": tolerations}
        file = write(tmp_path / "a.yaml", placement(**policy))
        first = cli("apply", "-f", file)
        assert "metricSorter is now propertySorter" in first.stderr
        assert cli("apply", "-f", file).stdout.endswith("unchanged\n")

    def test_a_refusal_shows_every_reason_and_does_not_stop_the_others(self, cli, stored, tmp_path):
        file = write(
            tmp_path / "a.yaml",
            placement("bad", placementType="PickN", clusterNames=["dover"]),
            placement("short", placementType="PickN"),
            placement("good"),
        )
        result = cli("apply", "-f", file)
        assert (result.exit_code, result.stdout) == (1, f"{CRP}/good created\n")
        assert result.stderr.splitlines() == [
            f'{file}: document 1: The ClusterResourcePlacement "bad" is invalid:',
            "* spec.policy.clusterNames: Forbidden: must not be set when placementType is PickN",
            "* spec.policy.numberOfClusters: Required value: must be set when placementType is PickN",
            f'{file}: document 2: The ClusterResourcePlacement "short" is invalid: spec.policy.numberOfClusters: '
            "Required value: must be set when placementType is PickN",
        ]
        assert stored(PLACEMENT, "bad") is None

    @pytest.mark.parametrize(
        "bad",
        [
            {"apiVersion": "v1", "kind": "Harbour", "metadata": {"name": "x"}},
            placement("Loud"),
            {**placement("x"), "metadata": {"name": "x", "labels": {"a": 1}}},
        ],
        ids=["unknown-kind", "bad-name", "label-is-a-number"],
    )
    def test_nothing_is_written_when_a_document_cannot_be_used(self, cli, stored, tmp_path, bad):
        file = write(tmp_path / "a.yaml", placement("good"), bad)
        result = cli("apply", "-f", file)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"error: {file}: document 2: ")
        assert stored(PLACEMENT, "good") is None

    def test_namespaces_and_definitions_go_first(self, cli, hub, tmp_path):
        boat = {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "a", "namespace": "pier"}}
        names = {"kind": "Boat", "plural": "boats", "shortNames": ["bt"]}
        versions = [{"name": "v1", "served": True, "storage": True, "schema": {}}]
        versions[0]["additionalPrinterColumns"] = [{"name": "Mast", "type": "integer", "jsonPath": ".spec.masts"}]
        spec = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": versions}
        definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        definition |= {"metadata": {"name": "boats.example.com"}, "spec": spec}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "pier"}}
        first = write(tmp_path / "a.yaml", {**boat, "spec": {"masts": 3}}, namespace, definition)
        result = cli("apply", "-f", first)
        assert [line.split("/")[0] for line in result.stdout.splitlines()] == [
            "namespace",
            "customresourcedefinition.apiextensions.k8s.io",
            "boat.example.com",
        ]
        second = write(tmp_path / "b.yaml", {**boat, "metadata": {"name": "b"}})
        assert cli("apply", "-f", second, "-n", "pier").exit_code == 0  # the hub knows the kind by now
        assert cli("get", "bt", "-n", "pier").stdout.split("\n")[1].split()[:2] == ["a", "3"]

    def test_the_namespace_option_must_fit(self, cli, hub, tmp_path):
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}}
        result = cli("apply", "-f", write(tmp_path / "a.yaml", config), "-n", "default")
        assert '"shop" is not the namespace of --namespace, "default"' in result.stderr

    def test_the_status_of_a_member_is_kept_for_its_simulation(self, cli, stored, tmp_path):
        leaving = member("dover")
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        cli("apply", "-f", write(tmp_path / "a.yaml", leaving))
        metadata = stored(MEMBER_CLUSTER, "dover")["metadata"]
        assert "node-count" in metadata["annotations"]["harbormaster.dev/simulate-status"]
        assert "deletionTimestamp" not in metadata

    def test_dry_run_writes_nothing(self, cli, stored, tmp_path):
        file = write(tmp_path / "a.yaml", placement())
        assert cli("apply", "-f", file, "--dry-run").stdout == f"{CRP}/web created (server dry run)\n"
        assert stored(PLACEMENT, "web") is None

    def test_what_get_prints_can_be_applied(self, cli, hub, tmp_path):
        cli("apply", "-f", write(tmp_path / "a.yaml", placement("a"), placement("b")))
        listing = cli("get", "crp", "-o", "yaml").stdout
        assert cli("apply", "-f", "-", text=listing).stdout == f"{CRP}/a configured\n{CRP}/b configured\n"
        assert cli("apply", "-f", "-", text=listing).stdout == f"{CRP}/a unchanged\n{CRP}/b unchanged\n"


class TestGet:
    """``get``."""

    @pytest.fixture(autouse=True)
    def _objects(self, cli, hub, tmp_path):
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "routes", "namespace": "shop"}}
        labelled = placement("blue")
        labelled["metadata"]["labels"] = {"colour": "blue"}
        cli("apply", "-f", write(tmp_path / "a.yaml", placement("web"), labelled, config, member("dover")))

    def test_a_table_has_the_columns_of_the_definition(self, cli):
        header, first, second = cli("get", "crp").stdout.splitlines()
        columns = "NAME GEN SCHEDULED SCHEDULED-GEN AVAILABLE AVAILABLE-GEN UPDATED STATE AGE"
        assert header.split() == columns.split()
        assert [line.split()[0] for line in (first, second)] == ["blue", "web"]
        assert "TYPE" in cli("get", "clusterresourceplacements", "-o", "wide").stdout

    def test_a_wide_table_has_the_urls_of_its_words(self, cli, hub):
        document = hub.run(hub.store.get(PLACEMENT, Key("web")))
        pending = condition("RemovalPending", "True", "ConfirmationRequired", "1 removal")
        hub.run(hub.store.replace_status(PLACEMENT, {**document, "status": {"conditions": [pending]}}))
        header, first, second = cli("get", "crp", "-o", "wide").stdout.splitlines()
        assert header.split()[-1] == "DOCS"
        assert "http" not in first
        assert second.endswith(f" {url_of('removal pending', STATE)}")
        assert "DOCS" not in cli("get", "ns", "-o", "wide").stdout

    @pytest.mark.parametrize(
        ("words", "names"),
        [
            (["crp/web"], [f"{CRP}/web"]),
            (["crp", "web", "blue"], [f"{CRP}/web", f"{CRP}/blue"]),
            (["crp/web", "cluster/dover"], [f"{CRP}/web", "membercluster.cluster.kubernetes-fleet.io/dover"]),
            (["cluster,crp"], ["membercluster.cluster.kubernetes-fleet.io/dover", f"{CRP}/blue", f"{CRP}/web"]),
            (["crp", "-l", "colour=blue"], [f"{CRP}/blue"]),
            (["cm", "-n", "shop"], ["configmap/routes"]),
            (["cm", "-A"], ["configmap/routes"]),
        ],
    )
    def test_ways_to_name_objects(self, cli, words, names):
        result = cli("get", *words, "-o", "name")
        assert (result.exit_code, result.stdout.splitlines()) == (0, names)

    def test_one_object_or_a_list_for_machines(self, cli):
        one = json.loads(cli("get", "crp/web", "-o", "json").stdout)
        assert one["metadata"]["name"] == "web"
        assert LAST_APPLIED in one["metadata"]["annotations"]
        many = yaml.safe_load(cli("get", "crp", "-o", "yaml").stdout)
        assert (many["kind"], [item["kind"] for item in many["items"]]) == ("List", ["ClusterResourcePlacement"] * 2)

    def test_events_are_those_that_the_loop_writes_the_latest_last(self, cli, tmp_path):
        def event(name, **more):
            about = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name}}
            regarding = {"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ClusterResourcePlacement"}
            told = {"type": "Normal", "action": "Looked", "reportingInstance": "t", "reportingController": "t/t"}
            seen = {"eventTime": "2026-01-05T10:00:00.000000Z"}
            return {**about, **told, **seen, "reason": name.title(), "regarding": {**regarding, "name": "web"}, **more}

        series = {"count": 3, "lastObservedTime": "2026-01-05T12:00:00.000000Z"}
        documents = event("again", note="seen thrice", series=series), event("once", note="seen once")
        assert cli("apply", "-f", write(tmp_path / "events.yaml", *documents)).exit_code == 0
        header, *rows = cli("get", "events").stdout.splitlines()
        assert header.split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
        about = "clusterresourceplacement/web"
        assert [row.split()[1:4] for row in rows] == [["Normal", reason, about] for reason in ("Once", "Again")]
        assert "once" in cli("get", "ev", "-o", "wide").stdout

    def test_nothing_is_said_to_be_nothing(self, cli):
        result = cli("get", "cm")
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "No resources found in default namespace\n")
        assert json.loads(cli("get", "cm", "-o", "json").stdout)["items"] == []

    @pytest.mark.parametrize(
        ("words", "mistake"),
        [
            (["crp/nope"], "Error from server (NotFound): ClusterResourcePlacement nope not found\n"),
            (["cluters"], "'cluters' is not a known kind. Did you mean cluster?\n"),
            (["mc"], "'mc' is not a known kind. Did you mean memberclusters or imc?\n"),
            (["MC/dover"], "'MC' is not a known kind. Did you mean memberclusters or imc?\n"),
            (["cur"], "'cur' is not a known kind. Did you mean clusterupgraderuns or clusterupgraderequests"),
            (["zzzzzz"], "'zzzzzz' is not a known kind\n"),
            (["crp/web", "blue"], "'blue': expected KIND/NAME, like the other arguments"),
            (["crp/web/x"], "'crp/web/x': expected KIND/NAME"),
            (["crp,cm", "web"], "'crp,cm': names can be given for one kind at a time"),
            (["crp", "-l", "a=b=c"], "Error from server (BadRequest): "),
            (["crp/web", "-l", "a=b"], "--selector cannot be used with object names"),
            (["cm/routes", "-A"], "--all-namespaces cannot be used with object names"),
        ],
    )
    def test_mistakes(self, cli, words, mistake):
        result = cli("get", *words)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.removeprefix("error: ").startswith(mistake)

    def test_names_from_the_command_line_cannot_leave_their_place_in_the_url(self, cli):
        assert "NotFound" in cli("get", "cm", "..", "-n", "shop").stderr
        assert "NotFound" in cli("get", "cm", "a?b#c%2e", "-n", "../..").stderr


def test_watch_shows_every_change_until_the_hub_goes(cli, hub, tmp_path):
    cli("apply", "-f", write(tmp_path / "a.yaml", placement("web")))

    async def meddle():
        document = await hub.store.get(PLACEMENT, Key("web"))
        labelled = {**document, "metadata": {**document["metadata"], "labels": {"seen": "yes"}}}
        await hub.store.replace(PLACEMENT, labelled)
        await hub.store.delete(PLACEMENT, Key("web"))
        await until(lambda: not any(watcher._backlog for watcher in watchers()))  # the last change is on its way
        hub.store.close()

    def watchers():
        return [watcher for each in hub.store._watchers.values() for watcher in each]

    def when_watched():
        block_until(watchers)
        hub.run(meddle())

    thread = threading.Thread(target=when_watched)
    thread.start()
    result = cli("get", "crp", "-w", "-o", "name")
    thread.join()
    assert result.stdout.splitlines().count(f"{CRP}/web") >= 3
    assert result.exit_code == 1  # the hub has gone
    assert result.stderr.startswith(("error: ", "Error from server"))


class TestDelete:
    """``delete``."""

    @pytest.fixture(autouse=True)
    def _objects(self, cli, hub, tmp_path):
        self.file = write(tmp_path / "a.yaml", placement("web"), placement("blue"))
        cli("apply", "-f", self.file)

    def test_by_name_and_by_file(self, cli, stored):
        assert cli("delete", "crp/web").stdout == f"{CRP}/web deleted\n"
        result = cli("delete", "-f", self.file)
        assert (result.exit_code, result.stdout) == (1, f"{CRP}/blue deleted\n")
        assert result.stderr == "Error from server (NotFound): ClusterResourcePlacement web not found\n"
        assert cli("delete", "-f", self.file, "--ignore-not-found").exit_code == 0
        assert stored(PLACEMENT, "blue") is None

    def test_what_finalizers_hold_is_waited_for(self, cli, stored, hub):
        document = stored(PLACEMENT, "web")
        held = {**document, "metadata": {**document["metadata"], "finalizers": ["example.com/hold"]}}
        hub.run(hub.store.replace(PLACEMENT, held))
        result = cli("delete", "crp", "web", "--timeout", "0")
        assert (result.exit_code, result.stdout) == (1, f"{CRP}/web deleted\n")
        assert result.stderr.startswith(
            f"error: timed out after 0 s waiting for {CRP}/web to be deleted, held by: example.com/hold"
        )

    @pytest.mark.parametrize(
        ("message", "held"),
        [
            ("Some resources are remaining: pods. has 1 resource instances", "Some resources are remaining: pods."),
            ("", "unknown (kube-controller-manager empties namespaces)"),
        ],
    )
    def test_a_namespace_that_stays_says_what_is_left_in_it(self, cli, hub, stored, message, held):
        content = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}}
        content["metadata"]["finalizers"] = ["example.com/hold"]
        hub.run(hub.store.create(KINDS["", "ConfigMap"], content))
        told = [{"type": "NamespaceContentRemaining", "status": "True" if message else "False", "message": message}]
        document = {**stored(NAMESPACE, "shop"), "status": {"phase": "Active", "conditions": told}}
        hub.run(hub.store.replace_status(NAMESPACE, document))
        result = cli("delete", "ns", "shop", "--timeout", "0")
        assert result.stderr.startswith(
            f"error: timed out after 0 s waiting for namespace/shop to be deleted, held by: {held}"
        )

    @pytest.mark.parametrize("wait", ["--wait=false", "--no-wait"])
    def test_flags_may_have_a_value_as_those_of_kubectl(self, cli, wait):
        """Scripts that were written for kubectl have them so."""
        assert cli("delete", "crp", "none", "--ignore-not-found=true", wait).exit_code == 0
        assert cli("delete", "crp", "none", "--ignore-not-found=false", wait).exit_code == 1
        assert cli("get", "crp", "web", "-o", "name", "--no-headers=true").stdout == f"{CRP}/web\n"
        assert "--recursive=maybe" not in cli("get", "crp", "--recursive=true").stderr
        assert cli("delete", "crp/web", "--no-wait").exit_code == 0

    def test_dry_run_deletes_nothing(self, cli, stored):
        assert cli("delete", "crp/web", "--dry-run").stdout == f"{CRP}/web deleted (server dry run)\n"
        assert stored(PLACEMENT, "web") is not None

    @pytest.mark.parametrize("selector", [(), ("-l", ""), ("-l", " "), ("-l", "\t \u00a0"), ("--all=false",)])
    def test_a_kind_alone_deletes_nothing(self, cli, stored, selector):
        """Nor a selector without labels, as an empty variable of a script makes it: to a hub, it selects everything."""
        result = cli("delete", "crp", *selector)
        assert (result.exit_code, "name the object" in result.stderr) == (1, True)
        assert stored(PLACEMENT, "web") is not None


def test_describe_shows_no_value_of_a_secret(cli, hub, tmp_path):
    """Whatever applies objects leaves a copy of them in an annotation."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "shop"}}
    secret["metadata"]["annotations"] = {"kapp.k14s.io/original": '{"data":{"password":"aHVudGVyMg=="}}'}
    secret |= {"data": {"password": "aHVudGVyMg=="}}
    cli("apply", "-f", write(tmp_path / "a.yaml", secret))
    result = cli("describe", "secret", "a", "-n", "shop")
    assert (result.exit_code, "password: 12 characters" in result.stdout) == (0, True)
    assert "kapp.k14s.io/original: 36 characters" in result.stdout
    assert "aHVudGVyMg==" not in result.stdout


class TestEdit:
    """``edit``; the editor is a script that changes the file it is given."""

    @pytest.fixture
    def edit(self, cli, hub, tmp_path, monkeypatch):
        cli("apply", "-f", write(tmp_path / "a.yaml", placement(placementType="PickN", numberOfClusters=2)))
        script = tmp_path / "editor"

        def run(*steps, word="crp/web"):
            """Each step is a shell command for one opening of the editor, with the file as ``$1``."""
            count = tmp_path / "count"
            count.write_text("0")
            cases = "\n".join(f"  {number}) {step} ;;" for number, step in enumerate(steps))
            script.write_text(
                f'n=$(cat {count}); echo $((n+1)) > {count}\ncp "$1" {tmp_path}/opened-$n\ncase $n in\n{cases}\nesac\n'
            )
            monkeypatch.setenv("EDITOR", f"sh {script}")
            return cli("edit", word)

        run.opened = lambda number: (tmp_path / f"opened-{number}").read_text()
        return run

    def test_a_change_is_sent(self, edit, stored):
        result = edit('sed -i "s/numberOfClusters: 2/numberOfClusters: 5/" "$1"')
        assert (result.exit_code, result.stdout) == (0, f"{CRP}/web edited\n")
        assert stored(PLACEMENT, "web")["spec"]["policy"]["numberOfClusters"] == 5

    @pytest.mark.parametrize(
        ("step", "reason"),
        [
            ("true", "the text is unchanged"),
            (': > "$1"', "the text is empty"),
            ('echo "# only comments" > "$1"', "the text is empty"),
            ('echo "# a comment below" >> "$1"', "the text differs, but all fields have the same values"),
        ],
    )
    def test_leaving_it_as_it_is_cancels_with_the_reason(self, edit, stored, step, reason):
        before = stored(PLACEMENT, "web")
        result = edit(step)
        assert (result.exit_code, result.stdout) == (0, f"Edit cancelled, no changes made: {reason}.\n")
        assert stored(PLACEMENT, "web") == before

    def test_a_refusal_opens_the_editor_again_with_the_reasons(self, edit, stored):
        result = edit(
            'sed -i "s/numberOfClusters: 2/numberOfClusters: -5/" "$1"',
            'sed -i "s/numberOfClusters: -5/numberOfClusters: 7/" "$1"',
        )
        assert (result.exit_code, result.stdout) == (0, f"{CRP}/web edited\n")
        assert '# The ClusterResourcePlacement "web" is invalid: spec.policy.numberOfClusters' in edit.opened(1)
        assert "numberOfClusters: -5" in edit.opened(1)
        assert stored(PLACEMENT, "web")["spec"]["policy"]["numberOfClusters"] == 7

    @pytest.mark.parametrize(
        ("step", "reason"),
        [
            ('echo "a: [" >> "$1"', "not YAML"),
            ('sed -i "s/^  name: web/  name: other/" "$1"', "metadata.name: 'other': cannot be changed, it was 'web'"),
            ('sed -i "s/^kind: .*/kind: Pod/" "$1"', "kind: 'Pod': cannot be changed"),
        ],
    )
    def test_what_cannot_be_sent_opens_the_editor_again(self, edit, step, reason):
        result = edit(step, "true")
        assert reason in edit.opened(1)
        assert result.exit_code == 1
        assert "Edit cancelled, no valid changes were saved. Your text is kept in " in result.stderr

    def test_a_field_can_be_removed(self, edit, stored):
        edit('sed -i "s/^  name: web/  name: web\\n  labels: {seen: yes-it-was}/" "$1"')
        assert stored(PLACEMENT, "web")["metadata"]["labels"] == {"seen": "yes-it-was"}
        edit('sed -i "/labels:/d; /seen:/d" "$1"')
        assert "labels" not in stored(PLACEMENT, "web")["metadata"]

    def test_an_editor_that_fails_changes_nothing(self, edit, stored):
        result = edit("exit 3")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "exited with code 3: nothing was changed" in result.stderr

    def test_without_a_name_or_an_object_there_is_nothing_to_edit(self, edit, cli, monkeypatch):
        assert "name the object" in edit("true", word="crp").stderr
        assert "NotFound" in edit("true", word="crp/nope").stderr
        monkeypatch.setenv("EDITOR", "/no/such/editor")
        assert "no such file or directory" in cli("edit", "crp/web").stderr


class TestReaching:
    """What goes wrong before the hub says anything."""

    def test_nobody_there(self, cli, hub, tmp_path):
        (tmp_path / "token").write_text(TOKEN)
        arguments = (
            "--server",
            "https://127.0.0.1:1",
            "--token-file",
            tmp_path / "token",
            "--ca-file",
            hub.data / "ca.crt",
        )
        result = cli("get", "crp", *arguments)
        assert result.exit_code == 1
        assert result.stderr == (
            "error: cannot reach https://127.0.0.1:1: connection refused. Start a hub with: harbormaster up\n"
        )

    def test_a_wrong_token(self, cli, hub, tmp_path):
        (tmp_path / "token").write_text("wrong")
        result = cli("get", "crp", "--token-file", tmp_path / "token")
        assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
        assert "does not accept the token" in result.stderr

    def test_an_authority_that_did_not_sign(self, cli, hub, tmp_path):
        from datetime import UTC, datetime

        from certs.authority import Authority

        (tmp_path / "other.crt").write_bytes(Authority.new(datetime.now(UTC)).pem)
        result = cli("get", "crp", "--ca-file", tmp_path / "other.crt")
        assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
        assert "its certificate is not trusted" in result.stderr
        assert f"{tmp_path / 'other.crt'} did not sign it" in result.stderr

    def test_a_server_whose_authority_is_not_named(self, cli, hub, tmp_path):
        (tmp_path / "token").write_text(TOKEN)
        result = cli("get", "crp", "--server", hub.url, "--token-file", tmp_path / "token")
        assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
        assert result.stderr.endswith(". To trust the CA that signed it, use --ca-file FILE\n")

    @pytest.mark.parametrize(("content", "mistake"), [(None, "no such file"), (b"x", "holds no certificate")])
    def test_an_authority_that_cannot_be_read(self, cli, hub, tmp_path, content, mistake):
        if content:
            (tmp_path / "ca").write_bytes(content)
        assert mistake in cli("get", "crp", "--ca-file", tmp_path / "ca").stderr


def test_a_failure_of_diff_is_no_difference(cli, hub, tmp_path, monkeypatch):
    """CI takes 1 for a change that is to be looked at."""
    monkeypatch.setenv("KUBECTL_EXTERNAL_DIFF", "diff -N -u")
    content = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a" * 253, "namespace": "shop"}}
    result = cli("diff", "-f", write(tmp_path / "a.yaml", content))
    assert (result.exit_code, "file name too long" in result.stderr.lower()) == (2, True)


CANARY = "aHVudGVyMg=="


def secret_with(value):
    """Return a Secret with *value* wherever one can be."""
    metadata = {
        "name": "a",
        "namespace": "shop",
        "labels": {"token": value.strip("=")},
        "annotations": {"kapp.k14s.io/original": f'{{"data":{{"a":"{value}"}}}}', "note": value},
    }
    content = {"data": {"a": value}, "stringData": {"b": value}, "odd": [{"deep": value}], "type": "Opaque"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **content}


def copying(secret, **metadata):
    """Return the metadata of an object that holds *secret*, with a copy of it as programs that apply objects make."""
    return {**metadata, "annotations": {"kapp.k14s.io/original": json.dumps(secret)}}


def in_work(secret):
    content = {"spec": {"workload": {"manifests": [secret]}}, "metadata": copying(secret, name="w", namespace="shop")}
    return {"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "Work", **content}


def in_envelope(secret):
    content = {"data": {"a.yaml": secret}, "metadata": copying(secret, name="e", namespace="shop")}
    return {"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceEnvelope", **content}


def in_list(secret):
    return {"apiVersion": "v1", "kind": "List", "items": [secret]}


def in_list_of_its_kind(secret):
    """The items of such a list have no kind of their own."""
    item = {name: value for name, value in secret.items() if name not in {"apiVersion", "kind"}}
    return {"apiVersion": "v1", "kind": "SecretList", "items": [item]}


WRAPPED = {
    "alone": lambda secret: secret,
    "work": in_work,
    "envelope": in_envelope,
    "list": in_list,
    "list-of-its-kind": in_list_of_its_kind,
    "work-of-a-list": lambda secret: in_work(in_list(secret)),
    "work-of-a-list-of-its-kind": lambda secret: in_work(in_list_of_its_kind(secret)),
}


@pytest.mark.parametrize("wrapped", WRAPPED.values(), ids=WRAPPED)
@pytest.mark.parametrize("exists", [False, True], ids=["new", "changed"])
@pytest.mark.parametrize("program", ["", "diff -N -u"], ids=["built-in", "external"])
def test_a_diff_shows_no_value_of_a_secret(cli, hub, tmp_path, monkeypatch, capfd, wrapped, exists, program):
    monkeypatch.setenv("KUBECTL_EXTERNAL_DIFF", program)
    if exists:
        applied = cli("apply", "-f", write(tmp_path / "old.yaml", wrapped(secret_with("Zm9vYmFyCg=="))))
        assert applied.exit_code == 0, applied.output
    file = write(tmp_path / "a.yaml", wrapped(secret_with(CANARY)))
    result = cli("diff", "-f", file)
    shown = result.output + capfd.readouterr().out
    assert result.exit_code == 1
    assert not [value for value in (CANARY.strip("="), "Zm9vYmFyCg") if value in shown]


def test_a_diff_shows_no_copy_of_a_secret_that_an_object_no_longer_holds(cli, hub, tmp_path):
    """The program that made the copy may not have applied the change."""
    old = in_envelope(secret_with(CANARY))
    assert cli("apply", "-f", write(tmp_path / "old.yaml", old)).exit_code == 0
    held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}}
    result = cli("diff", "-f", write(tmp_path / "a.yaml", {**old, "data": {"a.yaml": held}}))
    assert (result.exit_code, CANARY in result.output) == (1, False), result.output


def test_a_diff_of_a_secret_tells_what_differs(cli, hub, tmp_path):
    cli("apply", "-f", write(tmp_path / "old.yaml", secret_with("Zm9vYmFyCg==")))
    changed = {**secret_with(CANARY), "data": {"a": "Zm9vYmFyCg==", "b": CANARY}}
    result = cli("diff", "-f", write(tmp_path / "a.yaml", changed))
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert {"a: '***'", "-    note: '*** (before)'", "+    note: '*** (after)'", "+  b: '***'"} <= set(lines)


def test_a_secret_of_another_shape_is_hidden_as_well(cli, hub, tmp_path):
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "shop"}, "data": "hunter2"}
    result = cli("diff", "-f", write(tmp_path / "a.yaml", secret))
    assert (result.exit_code, "+data: '***'" in result.stdout, "hunter2" in result.output) == (1, True, False)
