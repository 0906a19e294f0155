"""Wrong calls, a table: each is answered with one clear line and the exit code of an error, never with a traceback."""

import os
import pty
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_SECONDS
from tests.webhook.cli.conftest import running_hub
from tests.webhook.cli.fleets import member, placement, write
from tests.webhook.cli.terminal import SCRIPTS, on_a_terminal, program, run

HUGE = "x" * 5000


@pytest.fixture(scope="module")
def still_hub(tmp_path_factory):
    """A hub that no wrong call changes."""
    with running_hub(tmp_path_factory.mktemp("still") / "hub") as found:
        yield found


@pytest.fixture
def hub(still_hub, cli, monkeypatch):
    """The hub that client commands find by the environment."""
    monkeypatch.setenv("HARBORMASTER_DATA", str(still_hub.data))
    return still_hub


@pytest.fixture(autouse=True)
def there(tmp_path, monkeypatch):
    """Files that the rows name, in the folder that the calls are made in."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "good.yaml", placement("web"))
    write(tmp_path / "two.yaml", placement("web"), placement("web"))
    write(tmp_path / "member.yaml", member("dover", 3))
    for name, content in {
        "empty.yaml": "",
        "text.yaml": "just text",
        "list.yaml": "- a\n- b",
        "broken.yaml": "a: [1",
        "tabs.yaml": "a:\n\tb: 1",
        "broken.json": '{"a": 1',
        "twice.json": '{"kind": "a", "kind": "b"}',
        "nan.json": '{"kind": "a", "spec": NaN}',
        "nokind.yaml": "apiVersion: v1\nmetadata: {name: a}",
        "noname.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {}",
        "unknown.yaml": "apiVersion: example.org/v1\nkind: Sail\nmetadata: {name: a}",
        "version.yaml": "apiVersion: placement.kubernetes-fleet.io/v9\nkind: ResourcePlacement\nmetadata: {name: a}",
        "badname.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'A B'}",
        "anchor.yaml": "a: &a [*a]",
        "columns": "NAME AGE\n.metadata.name",
        "kubeconfig": "apiVersion: v1\nkind: Config\n",
        "no-yaml": "a: [",
    }.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9\xff")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        # words
        ("gett crp", "No such command 'gett'. (Did you mean one of: 'agent', 'get'?)"),
        ("logs pod/a", "No such command 'logs'."),
        ("Get crp", "No such command 'Get'. Did you mean 'get'?"),
        ("get", "specify what to show: either KIND or KIND/NAME, or files with -f or -k"),
        ("get crpp", "'crpp' is not a known kind. Did you mean crp?"),
        ("get crp/", "'crp/': expected KIND/NAME"),
        ("get /web", "'/web': expected KIND/NAME"),
        ("get crp/web/x", "'crp/web/x': expected KIND/NAME"),
        ("get crp/web other", "'other': expected KIND/NAME, like the other arguments"),
        ("get crp,ns web", "'crp,ns': names can be given for one kind at a time"),
        ("get crp,ns/web", "'crp,ns/web': names can be given for one kind at a time"),
        ("get ,", "',' is not a known kind"),
        ("get all web", "'all' means several kinds, but a name needs one kind"),
        ("get fleet/web", "'fleet' means several kinds"),
        (f"get {HUGE}", "is not a known kind"),
        ("get crp WEB!", "NotFound: metadata.name: 'WEB!': a ClusterResourcePlacement cannot have this name"),
        ("get crp none", "ClusterResourcePlacement none not found"),
        ("get cm -n NO", "NotFound: metadata.namespace: 'NO'"),
        ("get cm -n ../x", "NotFound: metadata.namespace"),
        ("get crp..x", "'crp..x' is not a known kind"),
        # options of get
        ("get crp -o", "Option '-o' requires an argument."),
        (
            "get crp -o yml",
            "'yml' is not one of table, wide, json, yaml, name, jsonpath=…, custom-columns=…. Did you mean yaml?",
        ),
        ("get crp -o ''", "'' is not one of table"),
        ("get crp -o json=x", "'json' is not one of table"),
        ("get crp -o go-template={{.x}}", "go-template (Go templates) is not supported"),
        ("get crp -o go-template-file=x", "go-template-file (Go templates) is not supported"),
        ("get crp -o jsonpath", "jsonpath requires a value, as in jsonpath='{.items[*].metadata.name}'"),
        ("get crp -o jsonpath=", "jsonpath requires a value"),
        ("get crp -o jsonpath={.items", "jsonpath: {.items: unclosed action"),
        ("get crp -o jsonpath={.items[}", "unterminated array"),
        ("get crp -o jsonpath={.items[x]}", "invalid array index x"),
        ("get crp -o jsonpath={items}", "unrecognized identifier items"),
        ("get crp -o jsonpath={end}", "not in range, nothing to end"),
        ("get crp -o jsonpath={range.items[*]}", "unrecognized identifier range"),
        ("get crp -o 'jsonpath={range .items[*]}'", "a range has no {end}"),
        ("get crp -o jsonpath={.items[5]}", "array index out of bounds: index 5, length 0"),
        ("get crp -o jsonpath={.kind[0]}", "List is not a list"),
        ("get crp -o jsonpath={.items[0:1:0]}", "step must be > 0"),
        ("get crp -o jsonpath-file=none", "-o: none: no such file or directory"),
        ("get crp -o jsonpath-file=latin.yaml", "-o: latin.yaml: is not UTF-8"),
        ("get crp -o jsonpath-file=folder", "-o: folder: is a directory"),
        ("get crp -o custom-columns=NAME", "custom-columns: NAME: 'NAME': expected <header>:<json-path-expr>"),
        ("get crp -o custom-columns=:.a", "expected <header>:<json-path-expr>"),
        ("get crp -o custom-columns=A:.a,", "expected <header>:<json-path-expr>"),
        ("get crp -o custom-columns=A:{.a", "expected a path such as .metadata.name"),
        ("get crp -o custom-columns-file=columns", "expected a line of headers and a line of as many paths"),
        ("get crp --sort-by {.a", "--sort-by {.a: '{.a': expected a path"),
        ("get ns --sort-by .nothing", "--sort-by .nothing: no object has this field"),
        ("get ns --sort-by .metadata", "--sort-by .metadata: selects values that cannot be sorted"),
        ("get crp web -l a=b", "--selector cannot be used with object names"),
        ("get crp web --field-selector metadata.name=a", "--field-selector cannot be used with object names"),
        ("get cm a -A", "--all-namespaces cannot be used with object names"),
        ("get crp -l 'a=(b'", "labelSelector"),
        ("get crp --field-selector spec.x=1", "fieldSelector"),
        ("get crp --field-selector metadata.name", "has no '='"),
        ("get crp,ns -w", "--watch takes one kind or one object"),
        ("get crp -w --sort-by .metadata.name", "--sort-by cannot be used with --watch"),
        ("get crp --no-header", "No such option '--no-header'. Did you mean '--no-headers'?"),
        ("get crp -n", "Option '-n' requires an argument."),
        ("get crp -f good.yaml", "specify what to show: either KIND or KIND/NAME, or files with -f or -k"),
        # files
        ("apply", "specify what to apply: -f FILE or -k DIR"),
        ("apply -f none.yaml", "none.yaml: no such file or directory"),
        ("apply -f folder", "folder: no *.yaml, *.yml or *.json file in this folder"),
        ("apply -f empty.yaml", "no objects in empty.yaml"),
        ("apply -f text.yaml", "text.yaml: document 1: is text, expected an object"),
        ("apply -f list.yaml", "is a list, expected an object"),
        ("apply -f broken.yaml", "broken.yaml: line"),
        ("apply -f tabs.yaml", "tabs.yaml: line 2"),
        ("apply -f broken.json", "broken.json: line 1: not JSON"),
        ("apply -f twice.json", '"kind" is given twice'),
        ("apply -f nan.json", "NaN"),
        ("apply -f nokind.yaml", "nokind.yaml: document 1: kind: required"),
        ("apply -f noname.yaml", "noname.yaml: document 1: metadata.name: required"),
        ("apply -f unknown.yaml", 'kind: "Sail" of "example.org/v1" is not a known kind'),
        ("apply -f version.yaml", "is served as"),
        ("apply -f badname.yaml", "metadata.name"),
        ("apply -f anchor.yaml", "anchor.yaml"),
        ("apply -f latin.yaml", "latin.yaml: is not UTF-8"),
        ("apply -f loop.yaml", "loop.yaml: too many levels of symbolic links"),
        ("apply -f two.yaml", "is also in two.yaml: document 1"),
        ("apply -f https://example.org/a.yaml", "https://example.org/a.yaml: URLs are not supported"),
        ("apply -f - -f -", "-f -: standard input can be read only once"),
        ("apply -f good.yaml -k folder", "-f and -k cannot be used together"),
        ("apply -k none", "-k none: no such folder"),
        ("apply -k https://example.org/a", "URLs are not supported"),
        ("apply -k folder", "-k folder: building it requires kustomize or kubectl on the PATH"),
        ("apply -f good.yaml --dry-run=both", "Invalid value for '--dry-run'"),
        ("apply -f good.yaml --dry-run both", "Got unexpected extra argument (both)"),
        ("apply good.yaml", "Got unexpected extra argument (good.yaml)"),
        ("create -f good.yaml", "No such command 'create'."),
        ("delete", "specify what to delete: either KIND/NAME, or files with -f or -k"),
        ("delete crp", "ClusterResourcePlacement: name the object: clusterresourceplacement/NAME, -l LABELS or --all"),
        ("delete crp none", "not found"),
        ("delete crp web -l a=b", "--selector and --all cannot be used with object names"),
        ("delete crp --all -l a=b", "-l and --all cannot be used together"),
        ("delete cm a -A", "--all-namespaces cannot be used with object names"),
        ("delete -f good.yaml --all", "-l, --all and -A cannot be used with files"),
        ("delete crp web -f good.yaml", "specify what to delete: either KIND/NAME, or files with -f or -k"),
        ("delete crp none --timeout soon", "Invalid value for '--timeout'"),
        # the others
        ("describe", "Missing argument"),
        ("describe crp none", "not found"),
        ("describe crp web -l a=b", "--selector cannot be used with object names"),
        ("diff", "specify what to compare: -f FILE or -k DIR"),
        ("diff -f none.yaml", "none.yaml: no such file or directory"),
        ("diff -f good.yaml -n other -x", "No such option '-x'."),
        ("wait crp/web", "Missing option '--for'"),
        ("wait --for=delete -f good.yaml -l a=b", "-l, --all and -A cannot be used with files"),
        ("wait --for=delete", "specify what to wait for: either KIND/NAME, or files with -f or -k"),
        ("wait crp/web --for=Ready", "'Ready' is not one of condition=NAME, jsonpath={PATH}=VALUE, create, delete"),
        ("wait crp/web --for=condition=", "is not one of condition=NAME"),
        ("wait crp/web --for=jsonpath={.a", "jsonpath={.a"),
        ("wait crp/web --for=jsonpath={.a}=", "the value after = is empty"),
        ("wait crp/web --for=jsonpath={.a}x", "expected {PATH}=VALUE"),
        ("wait crp/web --for=delete --timeout=later", "'later'"),
        ("wait crp --for=delete", "name the object: clusterresourceplacement/NAME, -l LABELS or --all"),
        ("wait crp --all --for=condition=Ready", "no matching resources found"),
        ("wait crp/none --for=condition=Ready", "not found"),
        ("wait ns/shop --for=condition=Ready --timeout=0", "timed out waiting for condition=Ready on namespace/shop"),
        ("api-resources -o csv", "Invalid value for '-o'"),
        ("api-resources --namespaced=perhaps", "Invalid value for '--namespaced'"),
        ("edit crp", "name the object: clusterresourceplacement/NAME"),
        ("explain pod/web", "'pod/web' is not a placement: expected NAME, crp/NAME or rp/NAMESPACE/NAME"),
        ("explain crp", "'crp' is not a placement: expected NAME, crp/NAME or rp/NAMESPACE/NAME"),
        ("explain rp/a/web -n b", "'rp/a/web' is not in the namespace of --namespace, 'b'"),
        ("run status pod/web", "'pod/web' is not a run: expected NAME, csur/NAME or sur/NAMESPACE/NAME"),
        ("run status -w", "specify the run to watch"),
        ("get rp/a/web -n b", "a/web: is not in the namespace of --namespace, 'b'"),
        ("explain crp/none -f good.yaml", "there is no ClusterResourcePlacement 'none' in the files"),
        ("completion tcsh", "Invalid value for 'SHELL'"),
        ("completion", "Missing argument 'SHELL'. Choose from: bash, zsh, fish (see: "),
        ("version --clint", "No such option '--clint'. (Did you mean one of: '--client', '--context'?)"),
        # runs, members and upgrades
        ("run nginx --image=nginx", "No such command 'nginx'."),
        ("run status none", "there is no ClusterStagedUpdateRun none. For a run of a namespace: -n NAMESPACE"),
        ("run status -n", "Option '-n' requires an argument. (see: harbormaster run status --help)"),
        ("run start a --strategy s", "--placement: required, because there is no run a yet"),
        ("run start a --placement '' --strategy s", "Invalid value for '--placement': '' is empty"),
        ("run status a --wait --timeout x", "'x' is not a duration of hours, minutes and seconds such as 1h30m"),
        ("approve none", "there is no run and no approval request none. For a run of a namespace: -n NAMESPACE"),
        ("reject none", "Missing option '--reason'."),
        ("undo none -n shop", "there is no StagedUpdateRun none"),
        ("upgrade skip a", "specify what to skip: --member, --group, --stage or --wait-after"),
        ("upgrade plan", "specify a run, or files with -f"),
        ("upgrade plan -f good.yaml", "no ClusterUpgradeRun in the files. To plan a run of the hub"),
        ("windows next none", "there is no MemberCluster none"),
        ("cordon node-1", "there is no MemberCluster node-1"),
        ("join Dover --context a --member-context b", "'Dover' is not the name of a MemberCluster"),
        ("join dover --context a --member-context b", ".kube/config: no such file or directory"),
        # plans, tests and gates
        ("plan", "specify what to plan: -f FILE, --run NAME, --delete KIND/NAME, --lost CLUSTER or --drained CLUSTER"),
        ("plan -f good.yaml --lost none", '--lost none: there is no member cluster "none". The fleet: none'),
        ("plan -f good.yaml --now yesterday", "'yesterday' is not a time such as 2026-03-01T10:00:00Z"),
        ("plan --compare good.yaml", "Option '--compare' requires 2 arguments."),
        ("validate -f none.yaml", "none.yaml: no such file or directory"),
        ("test empty.yaml", "no tests in empty.yaml: no file is named harbormaster-test.yaml"),
        ("validate", "specify what to validate: -f FILE"),
        ("gate disruption spot", "Missing option '--reason'. Choose from: underutilized, empty, drifted"),
        ("gate disruption spot --reason Drifted", "name the nodes, or give their number with --count"),
        ("gate list --tz Mars", '--tz: "Mars" is not a time zone such as Europe/Berlin or UTC'),
        ("simulate disruption -f good.yaml", "no Node in good.yaml. Create a dump with: kubectl get"),
        ("history --since yesterday", "'yesterday' is not a duration"),
        ("rules none", "'none' is not a rule such as X-14"),
        # processes
        ("up --data good.yaml --once", "good.yaml: File exists. Choose another data folder with --data"),
        ("up --https-port 70000", "70000 is not in the range 0<=x<=65535"),
        ("dashboard --kubeconfig none", "kubeconfig none: no such file or directory"),
        ("webhook-configuration", "give the authority that signed the server certificate as --ca FILE"),
        ("crds --json-schemas good.yaml", "Directory 'good.yaml' is a file."),
        (
            "agent --cluster dover --hub-context a",
            "--hub-context 'a': requires --hub-kubeconfig FILE",
        ),
        # hubs
        (
            "get ns --server https://127.0.0.1:1 --token-file good.yaml",
            "--token-file good.yaml: must contain only a token",
        ),
        ("get ns --server 127.0.0.1", "--server '127.0.0.1': expected a URL such as https://127.0.0.1:9443"),
        ("get crp --kubeconfig none", "kubeconfig none: no such file or directory"),
        ("get crp --kubeconfig kubeconfig", "has no current context. Specify one with --context NAME"),
        ("get crp --kubeconfig no-yaml", "kubeconfig no-yaml: is not YAML"),
        ("get crp --kubeconfig latin.yaml", "kubeconfig latin.yaml: is not YAML"),
        ("get crp --kubeconfig folder", "kubeconfig folder: is a directory"),
        ("get crp --kubeconfig kubeconfig --context a", "has no context 'a', available: none"),
        ("get crp --kubeconfig kubeconfig --data x", "--data: cannot be used with --kubeconfig"),
        ("get crp --server ftp://x", "--server 'ftp://x'"),
        ("get crp --data nowhere", "no such file, so there is no hub to connect to"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_one_line_says_what_is_wrong(cli, hub, monkeypatch, line, said):
    monkeypatch.setenv("PATH", "/nowhere")
    done = cli(*shlex.split(line), text="")
    assert done.exit_code == (2 if line.startswith("diff") else 1), done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert said in done.stderr
    assert done.stderr.startswith(("error: ", "Error from server ("))
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 1000
    assert done.stdout == ""


@pytest.mark.parametrize("line", [["get", "ns"], ["version", "--client"]])
def test_a_full_disk_is_an_error(hub, line):
    with Path("/dev/full").open("w") as full:
        done = program(*line, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "error: No space left on device")


@pytest.mark.parametrize("line", ["get ns", "api-resources"])
def test_a_reader_that_goes_away_is_none(hub, line):
    command = f"{SCRIPTS / 'harbormaster'} {line} | true; echo ${{PIPESTATUS[0]}}"
    done = run("bash", "-c", command)
    assert (done.stdout.strip() in ("0", "141"), done.stderr) == (True, "")


@pytest.mark.parametrize("line", [["get", "ns"], ["get", "ns", "--show-labels"], ["describe", "ns", "shop"]])
def test_a_narrow_terminal_loses_nothing(hub, line):
    shown = on_a_terminal(*line, COLUMNS="40")
    assert "shop" in shown
    assert "Traceback" not in shown


def test_a_watch_ends_after_its_timeout(cli, hub):
    result = cli("get", "ns", "-w", "--timeout", "10ms")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "--timeout requires --watch" in cli("get", "ns", "--timeout", "1s").stderr


def test_ctrl_c_ends_a_watch_at_once(hub):
    command = [str(SCRIPTS / "harbormaster"), "get", "ns", "-w"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline().startswith("NAME")
        assert child.stdout.readline()
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=PATIENCE_SECONDS)
    assert (child.returncode, errors) == (130, "\n")


def test_ctrl_c_ends_a_wait_at_once(hub):
    ours, theirs = pty.openpty()
    command = [str(SCRIPTS / "harbormaster"), "wait", "ns/none", "--for=create", "--timeout=1h"]
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, text=True) as child:
        os.close(theirs)
        while len(list(Path(f"/proc/{child.pid}/task").iterdir())) < 2:  # until it waits for an answer
            assert child.poll() is None
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=PATIENCE_SECONDS)
    os.close(ours)
    assert (child.returncode, errors) == (130, "\n")
