"""What holds for every object, also for those nobody thought of (placement-api.md 14)."""

from copy import deepcopy

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scorer.api.crd.models import MODELS
from scorer.api.kinds import api_version
from tests.thoroughness import SOAK, examples
from webhook.access.user import UserInfo
from webhook.admission.judge import judge, mutate
from webhook.admission.patch import apply_patch
from webhook.admission.registry import REGISTRY
from webhook.admission.review import InvalidReviewError, answer, parse_review
from webhook.kube.transport.serialization import encode
from webhook.validation.framework.context import Context

USER = Context(user=UserInfo("jane"))
RULED = sorted((entry for entry in REGISTRY.values() if entry.validate), key=lambda entry: str(entry.kind))


def names_of(model, seen):
    """Collect the member names of a model and of everything below it."""
    names = set()
    for field in model.model_fields.values():
        names.add(field.alias)
        pending = [field.annotation]
        while pending:
            annotation = pending.pop()
            pending.extend(getattr(annotation, "__args__", ()))
            if isinstance(annotation, type) and hasattr(annotation, "model_fields") and annotation not in seen:
                seen.add(annotation)
                names |= names_of(annotation, seen)
    return names


NAMES = sorted(name for model in set(MODELS.values()) for name in names_of(model, set()) if name)
WORDS = [
    "PickAll",
    "PickN",
    "PickFixed",
    "External",
    "RollingUpdate",
    "ServerSideApply",
    "Mirror",
    "Equal",
    "Exists",
    "In",
    "NotIn",
    "Gt",
    "Le",
    "Namespace",
    "v1",
    "NamespaceAccessible",
    "Approval",
    "TimedWait",
    "1h",
    "0s",
    "Run",
    "Stop",
    "JSONPatch",
    "Delete",
    "add",
    "remove",
    "/spec/x",
    "/kind",
    "a",
    "B",
    "25%",
    "3",
    "-1",
    "16Gi",
    "kubernetes-fleet.io/node-count",
    "kube-system",
    "Bound",
    "Join",
    "0",
    "10",
    "User",
]
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", *WORDS])
    | st.text(max_size=3)
)
KEYS = st.sampled_from(NAMES) | st.text(max_size=2)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)

PLACEMENT_SPEC = {
    "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
    "policy": {
        "placementType": "PickN",
        "numberOfClusters": 2,
        "affinity": {
            "clusterAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "clusterSelectorTerms": [
                        {
                            "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
                            "propertySelector": {
                                "matchExpressions": [{"name": "n", "operator": "Ge", "values": ["1"]}]
                            },
                        }
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 5, "preference": {"metricSorter": {"name": "n", "sortOrder": "Ascending"}}}
                ],
            }
        },
        "topologySpreadConstraints": [{"topologyKey": "zone"}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
    },
    "strategy": {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1},
        "applyStrategy": {"type": "ServerSideApply"},
        "reportBackStrategy": {"type": "Mirror", "destination": "WorkAPI"},
    },
}


def positions(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from positions(item, (*path, key))


@st.composite
def damaged(draw):
    """Draw a sensible placement spec with up to three parts replaced, or removed."""
    spec = deepcopy(PLACEMENT_SPEC)
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from([path for path in positions(spec) if path]))
        holder = spec
        for part in path[:-1]:
            holder = holder[part]
        if isinstance(holder, dict) and draw(st.booleans()):
            del holder[path[-1]]
        else:
            holder[path[-1]] = draw(VALUES)
    return spec


def document_of(entry, body, metadata=None):
    kind = entry.kind
    return {
        "apiVersion": api_version(kind.group, kind.versions[0]),
        "kind": kind.kind,
        "metadata": {"name": "x"} if metadata is None else metadata,
        entry.body: body,
    }


def is_fit_for_an_answer(judgement):
    assert judgement.allowed is not bool(judgement.errors) or judgement.code in {400, 403}
    texts = [judgement.message, *judgement.warnings, *(error.text() for error in judgement.errors)]
    assert all(character >= " " and character != "\x7f" for text in texts for character in text)
    assert len(judgement.warnings) <= 10


@pytest.mark.parametrize("entry", RULED, ids=lambda entry: entry.kind.kind)
@settings(max_examples=60 if SOAK else 8, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_object_makes_the_rules_fail(entry, data):
    new = document_of(entry, data.draw(VALUES), data.draw(st.none() | VALUES))
    old = document_of(entry, data.draw(VALUES))
    for judgement in (
        judge("CREATE", new, None, USER),
        judge("UPDATE", new, old, USER),
        judge("DELETE", None, new, USER),
    ):
        is_fit_for_an_answer(judgement)
    assert judge("CREATE", new, None, USER) == judge("CREATE", new, None, USER)


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
@given(new=damaged(), old=damaged())
def test_damaged_placements(new, old):
    """Judging never fails; what was not changed is never refused; defaults are found once."""
    entry = REGISTRY["placement.kubernetes-fleet.io", "ClusterResourcePlacement"]
    after, before = document_of(entry, new), document_of(entry, old)
    is_fit_for_an_answer(judge("UPDATE", after, before, USER))
    assert judge("UPDATE", after, after, USER).allowed
    if judge("CREATE", before, None, USER).allowed:
        assert judge("UPDATE", after, before, USER).allowed <= (judge("CREATE", after, None, USER).allowed)


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
@given(new=damaged(), old=st.none() | damaged())
def test_mutation_is_a_patch_and_idempotent(new, old):
    entry = REGISTRY["placement.kubernetes-fleet.io", "ClusterResourcePlacement"]
    document, stored = document_of(entry, new), document_of(entry, old) if old is not None else None
    kept = deepcopy(document)
    operation = "CREATE" if old is None else "UPDATE"
    mutation = mutate(document, stored, operation)
    assert document == kept
    assert apply_patch(document, mutation.patch) == mutation.document
    assert mutate(mutation.document, stored, operation).patch == ()


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
@given(kind=st.sampled_from([entry for entry in RULED if entry.default]), new=damaged(), old=st.none() | damaged())
def test_a_patch_fills_in_and_takes_away_below_the_spec_and_replaces_nothing(kind, new, old):
    document, stored = document_of(kind, new), document_of(kind, old) if old is not None else None
    for operation in mutate(document, stored, "CREATE" if old is None else "UPDATE").patch:
        assert operation["op"] in {"add", "remove"}
        assert operation["path"].startswith("/spec/")


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
@given(new=damaged())
def test_defaults_do_not_change_the_verdict(new):
    """The same object, defaulted by a hook or not, is judged the same, but for a renamed sorter."""
    entry = REGISTRY["placement.kubernetes-fleet.io", "ClusterResourcePlacement"]
    document = document_of(entry, new)
    assert (
        judge("CREATE", document, None, USER).allowed
        == judge("CREATE", mutate(document, None, "CREATE").document, None, USER).allowed
    )


@settings(max_examples=examples(200))
@given(body=st.binary(max_size=60) | VALUES.map(encode))
def test_any_body_is_answered_or_refused(body):
    try:
        review = parse_review(body)
    except InvalidReviewError:
        return
    orjson.loads(encode(answer(review, "validate", USER)))


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
@given(
    request=st.dictionaries(
        st.sampled_from(["operation", "kind", "resource", "object", "oldObject", "subResource", "userInfo"]), VALUES
    )
)
def test_any_request_with_a_uid_is_answered(request):
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {**request, "uid": "u"}}
    for hook in ("validate", "mutate"):
        response = answer(deepcopy(review), hook, USER)["response"]
        assert response["uid"] == "u"
        assert isinstance(response["allowed"], bool)
