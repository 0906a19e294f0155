"""What is noted in the history, and ``/v1/history``, over real HTTPS on a hub of its own."""

from urllib.parse import quote

import pytest
import pytest_asyncio

from scorer.api.kinds import MEMBER_CLUSTER, NODE_POOL, OUR_KINDS, PLACEMENT, UPGRADE_RUN
from scorer.api.names import REQUESTED_BY
from tests.builders.placement import make_placement
from tests.waiting import PATIENCE_SECONDS, until
from tests.webhook.controllers.world import make_member, pick_n
from tests.webhook.description.example_hub import changed, serving
from tests.webhook.endpoints.conftest import make_review
from webhook.access.rights import Access
from webhook.endpoints.fleet.history import History
from webhook.history.entry import EntryType, InvolvedObject

pytestmark = pytest.mark.asyncio(loop_scope="module")

HISTORY = "/v1/history"
SHUT = {"disruption": {"budgets": [{"nodes": "0"}]}}
TOO_MUCH = [{"group": "", "version": "v1", "kind": "Namespace", "name": "kube-system"}]


def asked(name, **more):
    """A review of a placement that selects what a hub needs for itself."""
    review = make_review(**more)
    review["request"]["name"] = name
    review["request"]["object"]["metadata"]["name"] = name
    review["request"]["object"]["spec"]["resourceSelectors"] = TOO_MUCH
    return review


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def caller(tmp_path_factory):
    """The owner of a hub on which a placement was scheduled, others were refused, and a gate has said no."""
    async with serving(tmp_path_factory.mktemp("hub"), requests_per_second=1e6, request_burst=10**6) as owner:
        store = owner.up.store
        for name in "ab":
            await store.create(MEMBER_CLUSTER, make_member(name))
        await store.create(PLACEMENT, make_placement("web", pick_n(2)))
        pool = {"apiVersion": NODE_POOL.api_version, "kind": NODE_POOL.kind, "metadata": {"name": "general"}}
        await store.create(NODE_POOL, {**pool, "spec": SHUT})
        assert await owner.up.settled(PATIENCE_SECONDS)
        hook = f"/hooks/{owner.up.hook_secret_file.read_text(encoding='ascii').strip()}/validate"
        for review in (asked("refused"), asked("rehearsed", dryRun=True), make_review(), make_review(dryRun=True)):
            assert (await owner.ask("POST", hook, review)).status == 200
        assert (await owner.ask("POST", hook.replace("validate", "mutate"), make_review())).status == 200
        nodes = owner.up.services.disruption.nodes
        await until(lambda: nodes.synced)
        question = {"pool": "general", "reason": "Drifted", "count": 1, "observed": {"total": 10}}
        assert not (await owner.ask("POST", "/v1/gate/disruption", question)).json["allowed"]
        assert not (await owner.ask("POST", "/v1/gate/disruption", question)).json["allowed"]
        assert (await owner.ask("POST", "/v1/gate/cluster-update", {"cluster": "a"})).status == 200
        wanted = {"gate": "cluster-update", "question": {"cluster": "b"}, "holder": "me", "ttlSeconds": 60}
        assert (await owner.ask("POST", "/v1/gate/reservations", wanted)).status == 409
        yield owner


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def empty(tmp_path_factory):
    """The owner of a hub in whose history tests note what they need."""
    async with serving(tmp_path_factory.mktemp("empty"), requests_per_second=1e6, request_burst=10**6) as owner:
        yield owner


async def found(caller, query=""):
    answer = await caller.ask("GET", HISTORY + query)
    assert answer.status == 200, answer.json
    assert set(answer.json) == History.__required_keys__
    return [(each["type"], each["object"]["name"], each["reason"]) for each in answer.json["items"]]


@pytest.mark.parametrize(
    ("query", "entries"),
    [
        pytest.param("?type=refusal", [("Refusal", "refused", "X-01")], id="not-what-was-only-rehearsed"),
        pytest.param("?reason=X-01", [("Refusal", "refused", "X-01")], id="rule"),
        pytest.param("?by=ann&type=refusal&type=gate", [("Refusal", "refused", "X-01")], id="user"),
        pytest.param("?type=action", [("Action", "payments", "PlacementCreated")], id="accepted-once-and-no-rehearsal"),
        pytest.param("?q=ANN+created+crp", [], id="a-word-that-no-entry-has"),
        pytest.param("?q=ANN+created+payments", [("Action", "payments", "PlacementCreated")], id="words"),
        pytest.param("?id=nothing", [], id="unknown-id"),
        pytest.param("?type=decision&limit=1", [("Decision", "web", "ClustersPicked")], id="decision"),
        pytest.param("?kind=ClusterResourcePlacement&name=web&reason=PlacementScheduled", [
            ("Rollout", "web", "PlacementScheduled")
        ], id="rollout"),
        pytest.param("?before=2001-01-01T00:00:00Z", [], id="before"),
        pytest.param("?since=2999-01-01T00:00:00Z", [], id="since"),
        pytest.param("?namespace=nowhere", [], id="namespace"),
    ],
)  # fmt: skip
async def test_what_has_happened_is_found(caller, query, entries):
    assert await found(caller, query) == entries


@pytest.mark.parametrize(("name", "times"), [("general", 2), ("a", 1), ("b", 1)])
async def test_what_the_gate_denies_is_noted_with_who_asked(caller, name, times):
    answer = await caller.ask("GET", f"{HISTORY}?type=gate&name={name}")
    assert sum(each.get("count", 1) for each in answer.json["items"]) == times
    assert {each["by"] for each in answer.json["items"]} == {"harbormaster:up"}


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("?limt=3", "limt"),
        ("?limit=0", "limit"),
        ("?limit=1001", "limit"),
        ("?limit=1&limit=2", "limit"),
        ("?type=rumour", "type"),
        ("?since=yesterday", "since"),
        ("?before=2026-13-01T00:00:00Z", "before"),
        ("?continue=there", "continue"),
        ("?continue=2026-13-01T00:00:00Z/a-1", "continue"),
    ],
)
async def test_a_mistake_in_the_query_is_named(caller, query, name):
    answer = await caller.ask("GET", HISTORY + query)
    assert answer.status == 422
    assert [each["pointer"] for each in answer.json["errors"]] == [f"/{name}"]


async def test_one_entry_is_found_by_its_id(caller):
    (refusal,) = (await caller.ask("GET", f"{HISTORY}?type=refusal")).json["items"]
    assert (await caller.ask("GET", f"{HISTORY}?id={refusal['id']}")).json["items"] == [refusal]


async def test_pages_follow_each_other(caller):
    whole = (await caller.ask("GET", f"{HISTORY}?limit=1000")).json
    seen, token = [], ""
    while True:
        page = (await caller.ask("GET", f"{HISTORY}?limit=2&continue={token}")).json
        seen += page["items"]
        if not (token := page["continue"]):
            break
    assert [each["id"] for each in seen] == [each["id"] for each in whole["items"]]


class AllButReading:
    """Lets everybody ask everything, and list nothing."""

    async def may(self, _user, wanted):
        return not isinstance(wanted, Access)


async def test_who_may_not_list_placements_does_not_see_what_happened_to_them(caller):
    async with changed(caller, authorizer=AllButReading()) as stranger:
        kinds = {each["object"]["kind"] for each in (await stranger.ask("GET", HISTORY)).json["items"]}
    assert "NodePool" in kinds
    assert "ClusterResourcePlacement" not in kinds


class Reading:
    """Lets everybody ask everything, and list one kind."""

    def __init__(self, plural):
        self._plural = plural

    async def may(self, _user, wanted):
        return not isinstance(wanted, Access) or wanted.resource == self._plural


@pytest.mark.parametrize(
    ("plural", "seen"),
    [
        pytest.param("resourceplacements", set(), id="another-kind"),
        pytest.param("resourceoverrides", {"ResourceOverride"}, id="the-kind"),
        pytest.param("configmaps", {"Pod"}, id="what-the-record-is-in"),
    ],
)
async def test_what_is_in_namespaces_is_shown_to_those_who_may_list_it(empty, plural, seen):
    for kind in ("ResourceOverride", "Pod"):
        about = InvolvedObject(kind, "o", "quay")
        empty.up.services.history.note(EntryType.REFUSAL, about, "O-01", 'value "hunter2" is too short', "bob")
    async with changed(empty, authorizer=Reading(plural)) as stranger:
        items = (await stranger.ask("GET", f"{HISTORY}?namespace=quay")).json["items"]
    assert {each["object"]["kind"] for each in items} == seen


OURS = [kind for kind in OUR_KINDS if kind not in (MEMBER_CLUSTER, NODE_POOL)]


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.kind)
async def test_what_users_wrote_is_shown_to_those_who_may_list_its_kind(empty, kind):
    """Envelopes, evictions, budgets and members' objects among them, cluster-scoped or not."""
    about = InvolvedObject(kind.kind, f"of-{kind.plural}", "theirs" if kind.namespaced else "")
    for found in EntryType:
        empty.up.services.history.note(found, about, "X-01", 'value "hunter2" is refused', "bob")
    query = f"{HISTORY}?name={about.name}"
    for authorizer, count in ((AllButReading(), 0), (Reading("configmaps"), 0), (Reading(kind.plural), len(EntryType))):
        async with changed(empty, authorizer=authorizer) as stranger:
            assert len((await stranger.ask("GET", query)).json["items"]) == count


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("MemberCluster", {"Decision", "Rollout", "Event"}),
        ("NodePool", {"Decision", "Rollout", "Event", "Gate"}),
        ("CustomResourceDefinition", set()),
        ("Widget", set()),
    ],
)
async def test_of_what_is_in_no_namespace_the_path_shows_what_other_paths_do(empty, kind, types):
    """What the gate says of a member names what disrupts it, and a refusal repeats what somebody wrote."""
    for found in EntryType:
        empty.up.services.history.note(found, InvolvedObject(kind, "o-z"), "X-01", "crp/hidden is in the way", "bob")
    async with changed(empty, authorizer=AllButReading()) as stranger:
        items = (await stranger.ask("GET", f"{HISTORY}?name=o-z&kind={kind}")).json["items"]
    assert {each["type"] for each in items} == types


FILTERS = [
    "",
    "limit=1",
    "limit=1&type=refusal",
    "type=REFUSAL&type=Warning",
    "name=strongbox",
    "namespace=vault",
    "namespace=vault&name=strongbox&kind=ResourceEnvelope",
    "kind=ResourceEnvelope",
    "kind=ClusterResourceEnvelope",
    "reason=X-STRONGBOX",
    "by=mallory",
    "q=hunter2",
    "q=mallory+strongbox",
    "since=2000-01-01T00:00:00Z",
    "before=2999-01-01T00:00:00Z&by=mallory",
]


@pytest.mark.parametrize("query", FILTERS)
@pytest.mark.parametrize(
    "authorizer", [AllButReading(), Reading("resourceplacements"), Reading("membercl")], ids=["none", "other", "part"]
)
async def test_no_filter_shows_what_was_refused_of_envelopes(empty, query, authorizer):
    """Nor does the token of the next page, which is that of an entry."""
    for kind, namespace in (("ResourceEnvelope", "vault"), ("ClusterResourceEnvelope", "")):
        about = InvolvedObject(kind, "strongbox", namespace)
        for found in (EntryType.REFUSAL, EntryType.WARNING):
            empty.up.services.history.note(found, about, "X-STRONGBOX", 'value "hunter2" is refused', "mallory")
    async with changed(empty, authorizer=authorizer) as stranger:
        pages, token = [], ""
        while token or not pages:
            answer = await stranger.ask("GET", f"{HISTORY}?{query}" + (f"&continue={quote(token)}" if token else ""))
            pages.append(answer)
            token = answer.json["continue"]
    seen = "".join(page.body.decode() for page in pages).lower()
    assert not [each for each in ("strongbox", "mallory", "vault") if each in seen]
    if any(word in query for word in ("strongbox", "STRONGBOX", "mallory")):
        assert len(pages) == 1


async def test_nothing_is_told_without_credentials(caller):
    assert (await caller.anonymous().ask("GET", HISTORY)).status == 401


RUN = {
    "apiVersion": UPGRADE_RUN.api_version,
    "kind": UPGRADE_RUN.kind,
    "metadata": {"name": "k-1-31"},
    "spec": {"state": "Run", "upgrade": {"type": "Full", "kubernetesVersion": "1.31.2"}},
}
OWN = "system:serviceaccount:harbormaster-system:harbormaster"


@pytest.mark.parametrize(
    ("by", "annotations", "is_noted"),
    [
        pytest.param(OWN, {REQUESTED_BY: "jane"}, False, id="command-over-https"),
        pytest.param(OWN, {}, True, id="write-of-an-account-of-the-installation"),
        pytest.param("mallory", {REQUESTED_BY: "jane"}, True, id="annotation-of-a-user"),
    ],
)
async def test_a_command_over_https_is_noted_once_with_its_caller(empty, by, annotations, is_noted):
    """Its review names our own account. Nobody else hides an action behind the annotation."""
    hook = f"/hooks/{empty.up.hook_secret_file.read_text(encoding='ascii').strip()}/validate"
    name = f"k-{len(by)}-{len(annotations)}"
    run = {**RUN, "metadata": {"name": name, "annotations": annotations}}
    group = {"group": UPGRADE_RUN.group, "version": "v1alpha1"}
    more = {"kind": {**group, "kind": UPGRADE_RUN.kind}, "resource": {**group, "resource": UPGRADE_RUN.plural}}
    review = make_review(name=name, object=run, userInfo={"username": by}, **more)
    assert (await empty.ask("POST", hook, review)).json["response"]["allowed"]
    items = (await empty.ask("GET", f"{HISTORY}?type=action&name={name}")).json["items"]
    assert [each["by"] for each in items] == ([by] if is_noted else [])


async def test_what_users_do_on_the_embedded_hub_is_noted(empty):
    path = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements"
    assert (await empty.ask("POST", path, make_placement("embedded", pick_n(2)))).status == 201
    assert (await empty.ask("POST", f"{path}?dryRun=All", make_placement("rehearsed", pick_n(2)))).status == 201
    assert (await empty.ask("DELETE", f"{path}/embedded")).status == 200
    for name, reasons in (("embedded", ["PlacementDeleted", "PlacementCreated"]), ("rehearsed", [])):
        items = (await empty.ask("GET", f"{HISTORY}?type=action&name={name}")).json["items"]
        assert sorted((each["reason"], each["by"]) for each in items) == sorted((r, "harbormaster:up") for r in reasons)
