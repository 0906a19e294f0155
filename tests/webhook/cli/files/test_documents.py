"""Files, folders and standard input become objects, or one line per mistake."""

import io
import json
import os
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from tempfile import gettempdir

import pytest

from webhook.cli.errors import UserError
from webhook.cli.files.documents import load
from webhook.cli.files.search import Files

NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: routes}\n"
MEMBER = "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\n"


def mistakes(*paths):
    with pytest.raises(UserError) as caught:
        load(Files([str(path) for path in paths]))
    assert all("\n" not in line for line in caught.value.lines)
    return list(caught.value.lines)


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        pytest.param(
            "a: [", "line 1: not YAML: did not find expected node content while parsing a flow node", id="unparsable"
        ),
        pytest.param("just words", "document 1: is text, expected an object", id="text"),
        pytest.param("[1]", "document 1: is a list, expected an object", id="list"),
        pytest.param("3", "document 1: is a number, expected an object", id="number"),
        pytest.param(NAMESPACE + "---\nfalse", "document 2: is a boolean, expected an object", id="second-document"),
        pytest.param("kind: Namespace\nmetadata: {name: a}", "document 1: apiVersion: required", id="no-version"),
        pytest.param("apiVersion: v1\nmetadata: {name: a}", "document 1: kind: required", id="no-kind"),
        pytest.param("apiVersion: v1\nkind: Namespace", "document 1: metadata: required", id="no-metadata"),
        pytest.param(
            "apiVersion: v1\nkind: Namespace\nmetadata: {labels: {}}",
            "document 1: metadata.name: required",
            id="no-name",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: 5}",
            "document 1: metadata.name: 5 is a number, expected text",
            id="name-is-a-number",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Namespace\nmetadata: shop",
            'document 1: metadata: "shop" is text, expected an object',
            id="metadata-is-text",
        ),
        pytest.param(
            "apiVersion: 1\nkind: [x]\nmetadata: {name: a}",
            "document 1: apiVersion: 1 is a number, expected text",
            id="version-is-a-number",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Harbour\nmetadata: {name: a}",
            'document 1: kind: "Harbour" of "v1" is not a known kind',
            id="unknown-kind",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Deployment\nmetadata: {name: a}",
            'document 1: kind: "Deployment" of "v1" is not a known kind. Did you mean Deployment of apps/v1?',
            id="wrong-group",
        ),
        pytest.param(
            "apiVersion: cluster.kubernetes-fleet.io/v2\nkind: MemberCluster\nmetadata: {name: a}",
            'document 1: apiVersion: "cluster.kubernetes-fleet.io/v2": MemberCluster is served as '
            "cluster.kubernetes-fleet.io/v1beta1 and cluster.kubernetes-fleet.io/v1",
            id="unknown-version",
        ),
        pytest.param(
            MEMBER + "metadata: {name: a, namespace: shop}",
            'document 1: metadata.namespace: "shop": a MemberCluster is cluster-scoped',
            id="namespace-of-a-cluster-scoped-kind",
        ),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems: 7", "document 1: items: is a number, expected a list", id="items"
        ),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems: [null]",
            "document 1, items[0]: is null, expected an object",
            id="item",
        ),
        pytest.param(
            '{"kind": "a", "kind": "b"}', "line 1: 'kind' is given twice, the first time in line 1", id="flow"
        ),
    ],
)
def test_a_bad_document_is_named_in_one_line(tmp_path, text, mistake):
    file = tmp_path / "a.yaml"
    file.write_text(text)
    assert mistakes(file)[0] == f"{file}: {mistake}"


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        pytest.param(b'{"a": 1,}', "line 1: not JSON: ", id="unparsable"),
        pytest.param(b'{"a": 1, "a": 2}', 'not JSON: "a" is given twice in one object', id="duplicate-key"),
        pytest.param(b'{"a": NaN}', "not JSON: NaN is not a valid JSON number", id="not-a-number"),
        pytest.param(b'{"a": ' + b"[" * 200 + b"]" * 200 + b"}", "not JSON: nested deeper than 100 levels", id="deep"),
        pytest.param(b'{"a": ' + b"[" * 99999, "nested deeper than 100 levels", id="very-deep"),
        pytest.param(b'{"a": "\xff"}', "is not UTF-8 text: byte 7 is 0xff", id="not-utf-8"),
    ],
)
def test_bad_json_is_named_in_one_line(tmp_path, content, mistake):
    file = tmp_path / "a.json"
    file.write_bytes(content)
    assert mistakes(file)[0].startswith(f"{file}: {mistake}")


def test_two_documents_with_one_name_are_both_named(tmp_path):
    (tmp_path / "a.yaml").write_text(NAMESPACE)
    (tmp_path / "b.yaml").write_text(CONFIG + "---\n" + NAMESPACE)
    assert mistakes(tmp_path) == [
        f'{tmp_path}/b.yaml: document 2: metadata.name: Namespace "shop" is also in {tmp_path}/a.yaml: document 1'
    ]


def test_one_name_in_two_namespaces_or_kinds_is_two_objects(tmp_path):
    other = CONFIG.replace("routes", "routes, namespace: shop")
    (tmp_path / "a.yaml").write_text("---\n".join((CONFIG, other, CONFIG.replace("ConfigMap", "Secret"))))
    assert [one.namespace for one in load(Files((str(tmp_path),)))] == ["default", "shop", "default"]


def test_every_mistake_in_every_file_is_told(tmp_path):
    (tmp_path / "a.yaml").write_text("x: [")
    (tmp_path / "b.yaml").write_bytes(b"\xff")
    (tmp_path / "c.yaml").write_text(NAMESPACE)
    (tmp_path / "d.yaml").mkdir()
    found = mistakes(tmp_path, tmp_path / "nowhere.yaml")
    assert [line.removeprefix(f"{tmp_path}/").split(":")[0] for line in found] == [
        "a.yaml",
        "b.yaml",
        "d.yaml",
        "nowhere.yaml",
    ]
    assert found[2].endswith("is a directory, expected a file")
    assert found[3].endswith("no such file or directory")


def test_a_folder_is_read_by_name_and_recursively(tmp_path):
    for name in ("b/x.yml", "a.yaml", "b/a.json", "notes.txt", ".hidden.yaml", ".git/x.yaml"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        label = name.replace("/", "-").strip(".").lower()
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": label}}))
    assert [one.name for one in load(Files((str(tmp_path),)))] == ["a.yaml", "b-a.json", "b-x.yml"]


def test_a_folder_without_files_is_a_mistake(tmp_path):
    assert mistakes(tmp_path) == [f"{tmp_path}: no *.yaml, *.yml or *.json file in this folder"]


def test_a_folder_given_as_a_file_is_a_mistake(tmp_path):
    folder = tmp_path / "members.yaml"
    folder.mkdir()
    assert mistakes(folder) == [f"{folder}: is a directory, expected a file"]


@contextmanager
def as_nobody():
    """Root may read everything, so another user has to try."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("name", ["closed.yaml", "closed"])
def test_what_may_not_be_read_is_a_mistake(tmp_path_factory, name):
    base = tmp_path_factory.mktemp("shared")
    for folder in (base, *takewhile(lambda folder: folder != Path(gettempdir()), base.parents)):
        folder.chmod(0o755)
    path = base / name
    path.mkdir() if name == "closed" else path.write_text(NAMESPACE)
    path.chmod(0)
    with as_nobody():
        found = mistakes(path)
    path.chmod(0o700)
    assert found == [f"{path}: permission denied"]


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.yaml")
    assert mistakes(tmp_path) == [f"{tmp_path}/a.yaml: is not a regular file"]


def test_lists_are_taken_apart(tmp_path):
    config = {"metadata": {"name": "a"}, "data": {"x": "1"}}
    (tmp_path / "a.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {}, "items": [config]})
    )
    (tmp_path / "b.yaml").write_text("apiVersion: v1\nkind: List\nitems:\n- " + NAMESPACE.replace("\n", "\n  "))
    one, other = load(Files((str(tmp_path),)))
    assert one.document == {"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "1"}} | {
        "metadata": {"name": "a", "namespace": "default"}
    }
    assert str(other.source) == f"{tmp_path}/b.yaml: document 1, items[0]"


def test_json_documents_may_follow_one_another(tmp_path):
    texts = [json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}) for name in "ab"]
    (tmp_path / "a.json").write_text("\n".join(texts))
    (tmp_path / "b.yaml").write_text('{"apiVersion": "v1", kind: Namespace, metadata: {name: c}}')
    assert [one.name for one in load(Files((str(tmp_path),)))] == ["a", "b", "c"]


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbf" + NAMESPACE.encode())
    assert load(Files((str(tmp_path),)))[0].name == "shop"


def test_a_definition_in_the_same_input_makes_its_kind_known(tmp_path):
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Boat", "plural": "boats"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }
    boat = {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "titanic"}}
    (tmp_path / "a.json").write_text(json.dumps(boat))
    assert 'kind: "Boat" of "example.com/v1" is not a known kind' in mistakes(tmp_path)[0]
    (tmp_path / "b.json").write_text(json.dumps(definition))
    assert load(Files((str(tmp_path),)))[0].kind.plural == "boats"


def test_standard_input_is_read_once(monkeypatch):
    class Stdin:
        buffer = io.BytesIO(NAMESPACE.encode())

    monkeypatch.setattr("sys.stdin", Stdin)
    assert str(load(Files(("-",)))[0].source) == "standard input: document 1"
    assert mistakes("-", "-") == ["-f -: standard input can be read only once"]


def test_instants_and_words_stay_what_they_are(tmp_path):
    (tmp_path / "a.yaml").write_text(CONFIG + "data: {a: 2026-03-01T10:00:00Z, b: '1:30', c: 1:30}\n")
    assert load(Files((str(tmp_path),)))[0].document["data"] == {"a": "2026-03-01T10:00:00Z", "b": "1:30", "c": "1:30"}


def test_a_line_of_json_for_each_object(tmp_path):
    """What ``jq -c '.items[]'`` writes; to read it takes time that grows with its length, not with the square of it."""
    number = 12_000
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"text": "x" * 2_000}}
    lines = (json.dumps({**config, "metadata": {"name": f"c{each}"}}) for each in range(number))
    path = tmp_path / "objects.json"
    path.write_text("\n".join(lines), encoding="utf-8")
    assert [each.name for each in load(Files((str(path),)))] == [f"c{each}" for each in range(number)]


def test_a_member_of_many_that_is_given_twice(tmp_path):
    path = tmp_path / "objects.json"
    path.write_text("{" + ", ".join(f'"k{each}": 1' for each in (*range(50_000), 49_999)) + "}", encoding="utf-8")
    assert mistakes(path) == [f'{path}: not JSON: "k49999" is given twice in one object']
