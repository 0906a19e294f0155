"""``--validate``: unknown fields are refused by default, with a hub by its API server."""

import copy
import json

import pytest
import yaml

from scorer.api.kinds import MEMBER_CLUSTER, NODE_POOL, OUR_KINDS, PLACEMENT
from scorer.api.values.field_path import FieldPath
from tests.webhook.cli.fleets import member, placement, write
from webhook.cli.files.documents import Loaded
from webhook.cli.files.parsing import DocumentSource
from webhook.cli.hub.client import HubRefusedError
from webhook.cli.options.field_validation import FieldCheck, Validation, path_of_text, unknown_lines
from webhook.kube.ports import Key, NotFoundError

OFFLINE = [["validate", "-f"], ["lint", "-f"], ["lint"], ["plan", "-f"], ["upgrade", "plan", "-f"]]
WITH_HUB = [["apply", "-f"], ["diff", "-f"], ["apply", "--dry-run=server", "-f"], ["apply", "--dry-run=client", "-f"]]
REFUSED = {"diff": 2}
"""Exit codes other than 1."""


def typo(document, path, value=None):
    """Return *document* with another member at *path*, whose parents are there."""
    document = copy.deepcopy(document)
    *parents, name = path
    parent = document
    for part in parents:
        parent = parent[part]
    parent[name] = {} if value is None else value
    return document


TYPOS = [
    pytest.param(typo(placement(), ("spec", "polcy"), {"numberOfClusters": 2}), "spec.polcy", "policy", id="spec"),
    pytest.param(typo(placement(), ("spce",)), "spce", "spec", id="top"),
    pytest.param(typo(placement(), ("metadata", "lables")), "metadata.lables", "labels", id="metadata"),
    pytest.param(
        typo(placement(), ("spec", "resourceSelectors", 0, "nmae"), "shop"),
        "spec.resourceSelectors[0].nmae",
        "name",
        id="item",
    ),
    pytest.param(
        typo(placement(placementType="PickAll"), ("spec", "policy", "PlacementType"), "PickN"),
        "spec.policy.PlacementType",
        "placementType",
        id="case",
    ),
    pytest.param(typo(member("dover"), ("spec", "taint")), "spec.taint", "taints", id="member"),
    pytest.param(typo(member("dover"), ("spec", "wholly-odd")), "spec.wholly-odd", "", id="nothing-near"),
]


@pytest.fixture
def stored(hub):
    """Return a function that looks into the store."""

    def look(kind, name):
        try:
            return hub.run(hub.store.get(kind, Key(name, "")))
        except NotFoundError:
            return None

    return look


@pytest.mark.parametrize("command", OFFLINE, ids=" ".join)
@pytest.mark.parametrize(("document", "field", "near"), TYPOS)
def test_an_unknown_field_is_refused_without_a_hub(cli, tmp_path, command, document, field, near):
    file = write(tmp_path / "a.yaml", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}, document)
    result = cli(*command, file)
    said = f"{field}: Forbidden: unknown field" + (f". Did you mean {near}?" if near else "")
    assert (result.exit_code, said in result.output) == (1, True), result.output
    assert f"{file}: document 2" in result.output or f"{file}:" in result.stdout  # lint has line and column instead


@pytest.mark.parametrize("command", WITH_HUB, ids=" ".join)
@pytest.mark.parametrize(("document", "field", "near"), TYPOS)
@pytest.mark.parametrize("exists", [False, True], ids=["new", "existing"])
def test_an_unknown_field_is_refused_by_the_hub(cli, stored, tmp_path, command, document, field, near, exists):
    good = placement() if document["kind"] == "ClusterResourcePlacement" else member("dover")
    kind = PLACEMENT if document["kind"] == "ClusterResourcePlacement" else MEMBER_CLUSTER
    if exists:
        assert cli("apply", "-f", write(tmp_path / "good.yaml", good)).exit_code == 0
    before = stored(kind, document["metadata"]["name"])
    file = write(tmp_path / "a.yaml", document)
    result = cli(*command, file)
    said = "unknown field" + (f". Did you mean {near}?" if near else "")
    assert result.exit_code == REFUSED.get(command[0], 1), result.output
    (line,) = result.stderr.splitlines()
    assert line.removeprefix("error: ").startswith(f"{file}: document 1: {field}: ")
    assert line.endswith(said)
    assert stored(kind, document["metadata"]["name"]) == before


@pytest.mark.parametrize(
    ("word", "code", "warned"),
    [
        pytest.param("strict", 1, False, id="strict"),
        pytest.param("true", 1, False, id="true"),
        pytest.param("warn", 0, True, id="warn"),
        pytest.param("ignore", 0, False, id="ignore"),
        pytest.param("false", 0, False, id="false"),
    ],
)
@pytest.mark.parametrize(
    "command", [["validate"], ["lint"], ["plan"], ["apply"], ["apply", "--dry-run=client"], ["diff"]], ids=" ".join
)
def test_what_becomes_of_unknown_fields_is_a_choice(cli, hub, tmp_path, command, word, code, warned):
    document = typo(placement(), ("spec", "polcy"))
    result = cli(*command, f"--validate={word}", "-f", write(tmp_path / "a.yaml", document))
    changed = {"diff": 1}.get(command[0], 0)
    assert result.exit_code == (REFUSED.get(command[0], 1) if code else changed), result.output
    text = result.output.lower()
    assert ("spec.polcy" in text and "warning" in text.split("1 object:")[0]) == warned, result.output
    assert ("spec.polcy" in text) == (warned or bool(code))


def test_the_editor_opens_again_for_an_unknown_field(cli, stored, tmp_path, monkeypatch):
    cli("apply", "-f", write(tmp_path / "a.yaml", placement(placementType="PickAll")))
    script = tmp_path / "editor"
    script.write_text(
        f'if [ -e {tmp_path}/once ]; then cp "$1" {tmp_path}/again; exit 0; fi; touch {tmp_path}/once\n'
        'sed -i "s/^spec:/spec:\\n  polcy: {}/" "$1"\n'
    )
    monkeypatch.setenv("EDITOR", f"sh {script}")
    result = cli("edit", "crp/web")
    assert (result.exit_code, "polcy" in stored(PLACEMENT, "web")["spec"]) == (1, False)
    assert "# spec.polcy: unknown field. Did you mean policy?\n" in (tmp_path / "again").read_text()
    (tmp_path / "once").unlink()
    assert cli("edit", "crp/web", "--validate=ignore").exit_code == 0


def test_a_plan_on_a_dump_refuses_what_would_be_applied_but_not_the_dump(cli, tmp_path):
    odd = write(tmp_path / "odd.yaml", typo(placement(), ("spec", "polcy")))
    base = write(tmp_path / "hub.yaml", typo(member("dover"), ("spec", "fromAnotherRelease")))
    refused = cli("plan", "--on", base, "-f", odd)
    assert refused.exit_code == 1, refused.output
    assert f"{odd}: document 1: spec.polcy: Forbidden: unknown field. Did you mean policy?" in refused.stderr
    assert "fromAnotherRelease" not in refused.stderr
    assert cli("plan", "--on", base, "--validate=warn", "-f", odd).exit_code == 2


POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "np"},
    "spec": {
        "template": {"spec": {"nodeClassRef": {"group": "g.io", "kind": "K", "name": "d"}, "requirements": []}},
        "startupBoost": {"cpuu": 1},
    },
}


def definition(kind, **properties):
    """Return the definition of a kind whose spec has *properties*."""
    names = {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower(), "listKind": f"{kind.kind}List"}
    spec = {"type": "object", "properties": properties}
    content = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": kind.versions[0], "served": True, "storage": True, "schema": content}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.resource},
        "spec": {"group": kind.group, "names": names, "scope": "Cluster", "versions": [version]},
    }


@pytest.mark.parametrize(
    ("objects", "code", "said"),
    [
        pytest.param([POOL], 0, 'warning: unknown field "spec.startupBoost"', id="foreign-kind"),
        pytest.param(
            [definition(NODE_POOL, template={"type": "object", "x-kubernetes-preserve-unknown-fields": True}), POOL],
            1,
            "spec.startupBoost: Forbidden: unknown field",
            id="its-definition-is-there",
        ),
        pytest.param(
            [
                POOL,
                definition(
                    NODE_POOL,
                    template={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    startupBoost={"type": "object", "properties": {"cpu": {"type": "integer"}}},
                ),
            ],
            1,
            "spec.startupBoost.cpuu: Forbidden: unknown field. Did you mean cpu?",
            id="deeper-in-a-definition-that-knows-more",
        ),
        pytest.param(
            [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "lables": {}}}],
            0,
            'warning: unknown field "metadata.lables"',
            id="built-in-kind",
        ),
    ],
)
def test_other_kinds_are_judged_by_their_definition(cli, tmp_path, objects, code, said):
    result = cli("validate", "-f", write(tmp_path / "a.yaml", *objects))
    assert (result.exit_code, said in result.output) == (code, True), result.output


def test_duplicate_fields_are_refused(cli, hub, tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text(yaml.safe_dump(placement()) + "spec: {}\n")
    for command in (["apply"], ["diff"], ["validate"], ["lint"], ["plan"]):
        result = cli(*command, "-f", file)
        assert (result.exit_code, "is given twice" in result.output) == (REFUSED.get(command[0], 1), True)


GOOD = yaml.safe_dump(placement())
TYPO = GOOD.replace("spec:", "spec:\n  polcy: {}")
AS_JSON = json.dumps(typo(placement(), ("spec", "polcy")))
SPELLINGS = {
    "list": f'{{"apiVersion": "v1", "kind": "List", "items": [{AS_JSON}]}}',
    "list-of-its-kind": f'{{"apiVersion": "v1", "kind": "ClusterResourcePlacementList", "items": [{AS_JSON}]}}',
    "list-in-a-list": f'{{"kind": "List", "items": [{{"apiVersion": "v1", "kind": "List", "items": [{AS_JSON}]}}]}}',
    "list-with-a-spec": f'{{"apiVersion": "v1", "kind": "List", "spec": {{}}, "items": [{AS_JSON}]}}',
    "list-misspelled": f'{{"apiVersion": "v1", "kind": "List", "itmes": [{AS_JSON}]}}',
    "second-document": f"{GOOD}---\n{TYPO}",
    "behind-a-comment": f"{GOOD}--- # x\n{TYPO}",
    "behind-the-end": f"{GOOD}...\n{TYPO}",
    "yaml-behind-json": f"{json.dumps(placement())}\n---\n{TYPO}",
    "json-behind-json": f"{json.dumps(placement())}{AS_JSON}",
    "merge-key": GOOD.replace("spec:", "spec:\n  <<: {polcy: {}}"),
    "merge-of-an-anchor": GOOD.replace("spec:", "x: &a\n  polcy: {}\nspec:\n  <<: *a"),
    "null": GOOD.replace("spec:", "spec:\n  polcy: null"),
    "number-as-key": GOOD.replace("spec:", "spec:\n  1: 1"),
    "list-as-key": GOOD.replace("spec:", "spec:\n  ? [a]\n  : 1"),
    "empty-key": GOOD.replace("spec:", "spec:\n  '': {}"),
    "blank-in-the-key": GOOD.replace("spec:", "spec:\n  'policy ': {}"),
    "invisible-in-the-key": GOOD.replace("spec:", "spec:\n  policy\u200b: {}"),
    "letter-of-another-script": GOOD.replace("spec:", "spec:\n  p\u043elicy: {}"),
    "case": GOOD.replace("spec:", "Spec:"),
    "twice-in-quotes": f'{GOOD}"spec": {{}}\n',
    "twice-with-an-escape": json.dumps(placement()).replace('"spec"', '"spec": {}, "s\\u0070ec"'),
    "owner-reference": GOOD.replace(
        "metadata:", "metadata:\n  ownerReferences: [{apiVersion: v1, kind: A, name: a, uid: b, contoller: true}]"
    ),
    "tag": GOOD.replace("spec:", "spec: !!map\n  polcy: {}"),
    "byte-order-mark": f"\ufeff{TYPO}",
    "other-line-ends": TYPO.replace("\n", "\r\n"),
    "directive": f"%YAML 1.1\n---\n{TYPO}",
    "deep": GOOD.replace("spec:", f"spec:\n  polcy: {'[' * 5000}{']' * 5000}"),
}


@pytest.mark.parametrize("suffix", ["yaml", "json"])
@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS)
def test_no_spelling_hides_an_unknown_field(cli, hub, stored, tmp_path, text, suffix):
    file = tmp_path / f"a.{suffix}"
    file.write_text(text, encoding="utf-8", newline="")
    for command in (["lint"], ["validate", "-f"], ["plan", "-f"], ["apply", "-f"]):
        result = cli(*command, file)
        assert (result.exit_code, type(result.exception)) == (1, SystemExit), result.output
    if text.count(PLACEMENT.kind) == 1:  # what stands beside the typo may be applied
        assert stored(PLACEMENT, "web") is None


@pytest.mark.parametrize("suffix", ["yaml", "json"])
@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS)
def test_no_spelling_hides_an_unknown_field_in_a_folder(cli, tmp_path, text, suffix):
    """In which objects of unknown kinds are passed over."""
    (tmp_path / f"a.{suffix}").write_text(text, encoding="utf-8", newline="")
    assert cli("lint", tmp_path).exit_code == 1


@pytest.mark.parametrize("kind", OUR_KINDS, ids=str)
def test_all_kinds_but_the_foreign_one_are_strict(kind):
    document = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "a"}, "oddity": 1}
    one = Loaded(document, kind, DocumentSource("a.yaml"))
    check = FieldCheck.of(Validation.STRICT, [one])
    assert [str(error.field) for error in check.errors(one)] == ([] if kind == NODE_POOL else ["oddity"])
    assert check.warnings(one) == (['unknown field "oddity"'] if kind == NODE_POOL else [])


@pytest.mark.parametrize(
    ("message", "lines"),
    [
        pytest.param(
            'Boat in version "v1" cannot be handled as a Boat: strict decoding error: unknown field "spec.polcy", '
            'duplicate field "spec.a[0].b"',
            ["spec.polcy: unknown field. Did you mean policy?", "spec.a[0].b: duplicate field"],
            id="body",
        ),
        pytest.param(
            f' "" is invalid: patch: Invalid value: {json.dumps("strict decoding error: unknown field")}: strict '
            'decoding error: unknown field "spec.x"',
            ["spec.x: unknown field"],
            id="patch-with-the-words-in-it",
        ),
        pytest.param("quota exceeded", [], id="another-refusal"),
    ],
)
def test_a_refusal_of_an_api_server_is_read(message, lines):
    schema = {"properties": {"spec": {"properties": {"policy": {}}}}}
    assert unknown_lines(HubRefusedError({"code": 400, "message": message}), schema) == lines


@pytest.mark.parametrize("value", ["{}", '{"a": "x\\": y"}', 'Invalid value: "x": ', "a\nb", "\\", "\u2028é"])
def test_a_refusal_of_a_patch_does_not_repeat_the_object(value):
    """The object may hold a Secret."""
    quoted = f"Invalid value: {json.dumps(json.dumps({'hunter2': value}), ensure_ascii=False)}: "
    causes = [{"field": "patch", "message": f"{quoted}json: cannot read"}, {"field": "spec", "message": "Required"}]
    refusal = {"code": 422, "reason": "Invalid", "message": f' "" is invalid: patch: {quoted}json: cannot read'}
    error = HubRefusedError(refusal | {"details": {"causes": causes}})
    assert error.causes == ["patch: json: cannot read", "spec: Required"]
    assert str(error) == error.message == ' "" is invalid: patch: json: cannot read'


@pytest.mark.parametrize("text", ["spec.a[0].b", "metadata.labels[a/b.c]", "oddity", "spec.crew.ann[1][2].x-y"])
def test_a_path_is_read_as_it_is_printed(text):
    assert str(path_of_text(text)) == text
    assert path_of_text("spec.a[0].b") == FieldPath.of("spec", "a", 0, "b")
