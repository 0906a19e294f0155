"""The plan of removals that need a confirmation, and the truth: what a plan foretells is what the loop then does."""

from datetime import timedelta

from scorer.api.kinds import BINDING, CONFIG_MAP, OVERRIDE, PLACEMENT
from scorer.api.meta import format_time
from scorer.api.names import CONFIRM_REMOVAL, MEMBER_NAME
from scorer.api.unstructured.documents import conditions_of, is_deleting, with_metadata, with_spec
from tests.builders.placement import make_placement
from tests.virtual_time import loop_now
from tests.webhook.answers.dumps import plan_on_files
from tests.webhook.controllers.override_rules import make_override
from tests.webhook.controllers.world import make_config_map, make_member, running
from tests.webhook.edits import edit
from webhook.access.user import UserInfo
from webhook.admission.cached import CachedContext
from webhook.admission.rights import UndisputedRights
from webhook.answers.plans import HubPlanner
from webhook.answers.proposal import EVERYBODY, Deleted, Proposal, ProposedObject
from webhook.kube.ports import Key
from webhook.settings.admission import AdmissionSettings

OWNER = UserInfo("owner", frozenset({"system:masters"}))
MAPS = ("rates", "fees", "taxes", "tolls")
KINDS = {kind.kind: kind for kind in (PLACEMENT, CONFIG_MAP, OVERRIDE)}


class Hub:
    """A placement of four ConfigMaps on three members."""

    def __init__(self, world):
        self.world = world

    async def plan(self, *documents, deleted=()):
        given = [ProposedObject(KINDS[document["kind"]], document) for document in documents]
        admission = CachedContext(self.world.cache, AdmissionSettings(), loop_now)
        planner = HubPlanner(self.world.cache, admission, UndisputedRights(), loop_now)
        plan = await planner.plan(Proposal(given, deleted=deleted), OWNER, EVERYBODY)
        assert plan["complete"]
        return plan

    async def entry(self, *documents, deleted=()):
        (entry,) = (await self.plan(*documents, deleted=deleted))["placements"]
        return entry

    def confirmed(self, *digests, ahead=timedelta(hours=1)):
        """Return the placement with a confirmation, as a user writes it."""
        text = f"{','.join(digests)}@{format_time(loop_now() + ahead)}"
        return with_metadata(self.placement, annotations={CONFIRM_REMOVAL: text})

    @property
    def placement(self):
        return {**make_placement("p"), **(self.world.cache.get(PLACEMENT, "p") or {})}

    async def confirm(self, *digests):
        annotations = self.confirmed(*digests)["metadata"]["annotations"]
        await edit(self.world.store, PLACEMENT, Key("p"), lambda it: with_metadata(it, annotations=annotations))

    @property
    def narrow_selectors(self):
        """Return selectors of the namespace alone, without the ConfigMaps in it."""
        (selector,) = self.placement["spec"]["resourceSelectors"]
        return [{**selector, "selectionScope": "NamespaceOnly"}]

    async def narrow(self):
        await self.world.change(PLACEMENT, "p", resourceSelectors=self.narrow_selectors)

    def pending(self):
        """Return the message about pending removals."""
        conditions = {item["type"]: item for item in conditions_of(self.world.cache.get(PLACEMENT, "p") or {})}
        found = conditions.get("RemovalPending", {})
        return str(found["message"]) if found.get("reason") == "ConfirmationRequired" else ""

    def snapshots(self):
        live = [one for one in self.world.cache.list(BINDING) if not is_deleting(one)]
        return {one["spec"]["targetCluster"]: one["spec"].get("resourceSnapshotName") for one in live}


def hub():
    return _Hub()


class _Hub:
    async def __aenter__(self):
        self._running = running()
        world = await self._running.__aenter__()
        for name in ("a", "b", "c"):
            await world.add(make_member(name))
        await world.add(*(make_config_map(name) for name in MAPS[1:]), make_placement("p"))
        await world.until(lambda: world.view("p")["state"] == "available")
        return Hub(world)

    async def __aexit__(self, *error):
        return await self._running.__aexit__(*error)


def verdicts(entry):
    return {item["effect"]: item["verdict"] for item in entry["rollout"]["contentRemovals"]}


def digests(entry):
    return [item["digest"] for item in entry["rollout"]["contentRemovals"]]


EFFECTS = {f"ConfigMap shop/{name}" for name in MAPS}


async def test_objects_remain_until_their_removal_is_confirmed():
    async with hub() as it:
        before = it.snapshots()
        entry = await it.entry(with_spec(it.placement, resourceSelectors=it.narrow_selectors))
        assert verdicts(entry) == dict.fromkeys(EFFECTS, "Pending")
        assert entry["changed"]
        await it.narrow()
        await it.world.until(lambda: all(digest in it.pending() for digest in digests(entry)))
        assert it.snapshots() == before
        same = await it.entry()
        assert (verdicts(same), digests(same), same["changed"]) == (verdicts(entry), digests(entry), False)


async def test_objects_that_an_override_deletes_on_one_cluster_remain_until_confirmed(tmp_path):
    selector = {"labelSelector": {"matchLabels": {MEMBER_NAME: "a"}}}
    rule = {"clusterSelector": {"clusterSelectorTerms": [selector]}, "overrideType": "Delete"}
    override = make_override("drops", rule, namespace="", placement="p")
    async with hub() as it:
        plan = await it.plan(override)
        assert plan_on_files(it.world, tmp_path, override)["placements"] == plan["placements"]
        (entry,) = plan["placements"]
        assert verdicts(entry) == dict.fromkeys([*EFFECTS, "Namespace shop"], "Pending")
        assert {tuple(item["clusters"]) for item in entry["rollout"]["contentRemovals"]} == {("a",)}
        await it.world.add(override)
        await it.world.until(lambda: all(digest in it.pending() for digest in digests(entry)))
        assert await it.world.on_member("a", CONFIG_MAP, "rates", "shop")
        assert (await it.entry())["rollout"]["contentRemovals"] == entry["rollout"]["contentRemovals"]
        confirmed = await it.entry(it.confirmed(*digests(entry)))
        assert set(verdicts(confirmed).values()) == {"Confirmed"}
        await it.confirm(*digests(entry))
        await it.world.until(lambda: not it.pending() and it.world.view("p")["state"] == "available")
        assert await it.world.on_member("a", CONFIG_MAP, "rates", "shop") is None
        assert await it.world.on_member("b", CONFIG_MAP, "rates", "shop")


async def test_a_confirmation_removes_the_objects_that_its_digests_name(tmp_path):
    async with hub() as it:
        await it.narrow()
        await it.world.until(lambda: len(it.pending().split("(")) > len(MAPS))
        pending = await it.entry()
        chosen = pending["rollout"]["contentRemovals"][:2]
        plan = await it.plan(it.confirmed(*(item["digest"] for item in chosen)))
        (entry,) = plan["placements"]
        expected = dict.fromkeys(EFFECTS, "Pending") | {item["effect"]: "Confirmed" for item in chosen}
        assert (verdicts(entry), entry["changed"]) == (expected, True)
        on_files = plan_on_files(it.world, tmp_path, it.confirmed(*(item["digest"] for item in chosen)))
        assert on_files["placements"] == plan["placements"]
        await it.confirm(*(item["digest"] for item in chosen))
        await it.world.until(lambda: set(it.snapshots().values()) == {entry["rollout"]["snapshot"]})
        left = {item["effect"] for item in pending["rollout"]["contentRemovals"]} - {item["effect"] for item in chosen}
        assert all(effect in it.pending() for effect in left)
        assert not any(item["digest"] in it.pending() for item in chosen)


async def test_a_stale_digest_or_one_of_another_object_confirms_nothing():
    async with hub() as it:
        await it.narrow()
        await it.world.until(lambda: len(it.pending().split("(")) > len(MAPS))
        pending = await it.entry()
        for given in (
            it.confirmed("0123456789abcdef0123"),
            it.confirmed(digests(pending)[0], ahead=timedelta(hours=80)),
            with_metadata(it.placement, annotations={CONFIRM_REMOVAL: "0123"}),
        ):
            entry = await it.entry(given)
            assert (verdicts(entry), entry["rollout"]["steps"]) == (dict.fromkeys(EFFECTS, "Pending"), [])
            assert not entry["changed"]


async def test_a_digest_that_was_carried_out_confirms_nothing_again():
    async with hub() as it:
        await it.narrow()
        await it.world.until(lambda: len(it.pending().split("(")) > len(MAPS))
        pending = await it.entry()
        confirmation = it.confirmed(digests(pending)[0])["metadata"]["annotations"]
        await edit(it.world.store, PLACEMENT, Key("p"), lambda doc: with_metadata(doc, annotations=confirmation))
        await it.world.until(lambda: digests(pending)[0] not in it.pending() and it.pending())
        again = await it.entry(with_metadata(it.placement, annotations=confirmation))
        assert sorted(verdicts(again).values()) == ["Pending"] * 3


async def test_a_deleted_placement_keeps_its_content_until_that_is_confirmed():
    async with hub() as it:
        before = it.snapshots()
        entry = await it.entry(deleted=[Deleted("ClusterResourcePlacement", "p")])
        assert (list(verdicts(entry).values()), entry["moves"]["lost"], entry["dropped"]) == (["Pending"], [], [])
        assert entry["moves"]["stays"] == ["a", "b", "c"]
        await it.world.store.delete(PLACEMENT, Key("p"))
        await it.world.until(lambda: digests(entry)[0] in it.pending())
        assert it.snapshots() == before
        other = await it.entry(it.confirmed("0123456789abcdef0123"))
        assert (list(verdicts(other).values()), other["changed"]) == (["Pending"], False)
        confirmed = await it.entry(it.confirmed(*digests(entry)))
        assert (list(verdicts(confirmed).values()), confirmed["moves"]["lost"]) == (["Confirmed"], ["a", "b", "c"])
        assert confirmed["changed"]
        await it.confirm(*digests(entry))
        await it.world.until(lambda: it.snapshots() == {})
