"""What is rendered is what the running loop writes: the example fleet, and random fleets with a change to each."""

from functools import partial
from random import Random

import orjson
import pytest

from scorer.api.family import FAMILIES, PLACEMENTS
from scorer.api.kinds import KINDS, NAMESPACE
from scorer.api.names import member_namespace
from scorer.api.unstructured.documents import (
    current_condition,
    manifests_of,
    name_of,
    namespace_of,
    spec_of,
)
from scorer.rollout.confirmation.policy import ConfirmationMode, RemovalPolicy
from scorer.what_if.changes import apply_changes, unchanged
from scorer.what_if.rendering import future_contents, present_contents
from scorer.what_if.state import FIELDS, HubState, HypotheticalChanges
from tests.builders.random_fleet import random_fleet, random_labels
from tests.docs.pages import ROOT
from tests.virtual_time import loop_now
from tests.webhook.controllers.world import make_member, running
from tests.webhook.edits import edit
from webhook.answers.proposal import RUNS, Proposal, ProposedObject, judge_proposal
from webhook.cli.files.repositories import load_known
from webhook.cli.files.search import Files
from webhook.cli.offline.admission import offline_context
from webhook.cli.offline.stored_files import store
from webhook.embedded.simulation.annotations import status_in_annotation
from webhook.kube.ports import Key

OFF = ConfirmationMode.OFF
NO_CONFIRMATION = RemovalPolicy(
    data=OFF, many_objects=OFF, objects=OFF, many_clusters=OFF, clusters=OFF, placement=OFF, node_pool=OFF
)
WORLDS, FLEETS_PER_WORLD, MEMBERS = 4, 50, 4


def written(world):
    """Return the Works of the hub: bytes of their manifests, by placement, cluster and name."""
    found = {}
    for work in world.works():
        found.setdefault(namespace_of(work), {})[name_of(work)] = manifest_bytes(work)
    return found


def manifest_bytes(work):
    return orjson.dumps(manifests_of(work), option=orjson.OPT_SORT_KEYS)


def as_works(contents):
    """Return rendered content in the form of `written`."""
    found = {}
    for content in contents.values():
        for cluster, rendered in content.clusters.items():
            works = {name_of(work): manifest_bytes(work) for work in rendered.works}
            assert not works.keys() & found.get(member_namespace(cluster), {}).keys()
            found.setdefault(member_namespace(cluster), {}).update(works)
    return {namespace: works for namespace, works in found.items() if works}


def problems(contents):
    return {
        (content.placement["metadata"]["name"], cluster): rendered.problem.message
        for content in contents.values()
        for cluster, rendered in content.clusters.items()
        if rendered.problem is not None
    }


def reported_problems(world):
    """Return the reason that each binding gives for missing Works."""
    found = {}
    for family in FAMILIES:
        for binding in world.store.objects(family.binding):
            overridden = current_condition(binding, "Overridden") or {}
            if overridden.get("status") == "False":
                found[family.parent(binding).name, spec_of(binding)["targetCluster"]] = overridden["message"]
    return found


def state_of(world, documents):
    """Return a hub of documents, with the fleet of a world."""
    fields = {name: [] for name in FIELDS.values()}
    others = []
    for document in documents:
        kind = kind_of(document)
        fields[FIELDS[kind.group_kind]].append(document) if kind.group_kind in FIELDS else others.append(document)
    now = world.now().replace(microsecond=0)
    return HubState(
        world.cache.fleet, now, content=partial(iter, others), kinds=world.selectables.served.kinds, **fields
    )


def kind_of(document):
    return next(kind for kind in KINDS.values() if kind.kind == document["kind"] and kind.group == group_of(document))


def group_of(document):
    return document["apiVersion"].rpartition("/")[0]


def stored(world):
    return [document for kind in world.store.kinds for document in world.store.objects(kind)]


async def add_members(world, random):
    names = [f"m{number}" for number in range(MEMBERS)]
    await world.add(*(make_member(name, nodes=at + 1, **random_labels(random)) for at, name in enumerate(names)))
    await world.until(lambda: all(map(world.has_joined, names)))


async def until_written(world, contents):
    """Wait until the loop has written what was rendered, and is at rest.

    A cluster that an override fails on keeps what it has. With several changes, that may be the result of some of them,
    so its Works are not compared.
    """
    failures = problems(contents)
    failing = {(name.partition("-")[0], member_namespace(cluster)) for name, cluster in failures}

    def compared(works):
        return {
            (namespace, name): content
            for namespace, by_name in works.items()
            for name, content in by_name.items()
            if (name.partition("-")[0], namespace) not in failing
        }

    expected = compared(as_works(contents))
    try:
        await world.until(lambda: (compared(written(world)), reported_problems(world)) == (expected, failures))
    except TimeoutError:
        assert differences(compared(written(world)), expected) == []
        assert reported_problems(world) == failures
        raise


def differences(written, rendered):
    """Return the Works that differ."""
    keys = sorted(written.keys() | rendered.keys())
    return [(key, written.get(key), rendered.get(key)) for key in keys if written.get(key) != rendered.get(key)]


def has_override_snapshots(world):
    """Return whether each override has a latest snapshot that holds its spec."""
    return all(
        any(spec_of(snapshot)["overrideSpec"] == spec_of(override) for snapshot in world.store.objects(kind))
        for family in FAMILIES
        for kind in [family.override_snapshot]
        for override in world.store.objects(family.override)
    )


async def change(world, document):
    kind, key = kind_of(document), Key(name_of(document), namespace_of(document))
    if any((name_of(each), namespace_of(each)) == key for each in world.store.objects(kind)):
        fields = {name: value for name, value in document.items() if name not in ("metadata", "status")}
        labels = document["metadata"].get("labels", {})
        await edit(
            world.store, kind, key, lambda it: {**it, **fields, "metadata": {**it["metadata"], "labels": labels}}
        )
    else:
        await world.add(document)


@pytest.mark.parametrize("seed", range(WORLDS))
async def test_random_fleets_are_rendered_as_the_loop_writes_them(seed):
    random = Random(seed)
    fleets = [random_fleet(f"f{number}", random) for number in range(FLEETS_PER_WORLD)]
    objects = [document for fleet in fleets for document in fleet.objects]
    async with running(removal=NO_CONFIRMATION) as world:
        await add_members(world, random)
        from_files = future_contents(unchanged(state_of(world, objects)))
        # Overrides first: one that fails keeps the objects that a placement had before.
        await world.add(*(document for document in objects if "Placement" not in document["kind"]))
        await world.until(lambda: has_override_snapshots(world))
        await world.add(*(document for document in objects if "Placement" in document["kind"]))
        await until_written(world, from_files)
        assert as_works(present_contents(state_of(world, stored(world)))) == written(world)
        # A failing override keeps what a cluster has, so content that changes with it is placed or not, depending on
        # which of the two the loop sees first.
        changed = [document for fleet in fleets for document in fleet.changed]
        for documents in partition(changed, lambda document: "Override" in document["kind"]):
            rendered = future_contents(
                apply_changes(state_of(world, stored(world)), HypotheticalChanges(objects=documents))
            )
            assert as_works(rendered) != written(world)
            for document in documents:
                await change(world, document)
            await world.until(lambda: has_override_snapshots(world))
            world.again()  # a rollout picks up an override that names no placement at its next reconcile
            await until_written(world, rendered)


def partition(documents, test):
    """Return the documents that pass a test, and the others."""
    return [each for each in documents if test(each)], [each for each in documents if not test(each)]


def example_contents(objects):
    """Return the content that `harbormaster render -f examples/fleet` prints."""
    adopted = [ProposedObject(item.kind, item.document) for item in objects if item.kind in PLACEMENTS]
    context = offline_context(objects, loop_now())
    hub = store([item for item in objects if item.kind not in PLACEMENTS], now=None, clock=loop_now()).hub
    judged = judge_proposal(hub, Proposal(adopted=adopted), context)
    return future_contents(apply_changes(judged.state, judged.changes))


WAIT_FOR_A_RUN = {"flags", "storefront"}
SETTLED = {"available", "short"}
WAITS_FOR_ITS_NAMESPACE = {"rates"}
"""A ResourcePlacement, which goes to clusters that have the namespace. No member of the files reports any."""


async def test_the_example_fleet_is_rendered_as_the_loop_writes_it():
    objects = load_known(Files((str(ROOT / "examples" / "fleet"),)))
    contents = example_contents(objects)
    rolled_out = {
        key: content for key, content in contents.items() if key.name not in WAIT_FOR_A_RUN | WAITS_FOR_ITS_NAMESPACE
    }
    assert len(contents) - len(rolled_out) == 3
    async with running(removal=NO_CONFIRMATION) as world:
        await world.store.delete(KINDS["", "ConfigMap"], Key("rates", "shop"))  # of the tests
        existing = {name_of(namespace) for namespace in world.store.objects(NAMESPACE)}
        for item in objects:
            if item.kind == NAMESPACE and item.name in existing:
                await change(world, item.document)
            elif item.kind not in RUNS and (item.kind not in PLACEMENTS or item.name not in WAITS_FOR_ITS_NAMESPACE):
                await world.store.create(item.kind, status_in_annotation(item.document))
        await world.until(lambda: all(world.view(key.name)["state"] in SETTLED for key in rolled_out))
        works = written(world)
        assert as_works(present_contents(state_of(world, stored(world)))) == works
    # Picks depend on what members report as used while others are placed. The objects of a cluster do not.
    from_files = as_works(rolled_out)
    common = [
        (home, name) for home in works.keys() & from_files.keys() for name in works[home].keys() & from_files[home]
    ]
    assert len(common) > len(rolled_out)
    assert [place for place in common if works[place[0]][place[1]] != from_files[place[0]][place[1]]] == []
