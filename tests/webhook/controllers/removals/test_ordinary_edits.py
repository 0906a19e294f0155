"""Ordinary edits of a fleet, from a generator with a fixed seed: none of them needs a confirmation."""

import random
from collections import Counter

from scorer.api.kinds import EVICTION, PLACEMENT
from scorer.api.unstructured.documents import conditions_of, with_metadata
from tests.builders.placement import fixed, make_placement
from tests.thoroughness import examples
from tests.webhook.controllers.world import CONFIG_MAP, make_config_map, make_member, pick_n, running
from tests.webhook.edits import edit
from webhook.kube.ports import Key

SEED, ROUNDS = 41, 20
TEAMS = examples(25)
EDITS = TEAMS * ROUNDS
CLUSTERS = ("m0", "m1", "m2", "m3", "m4", "m5")
OBJECTS = 22
TERMS = [{"group": "", "version": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"placed": "yes"}}}]
REMOVALS = ("delete", "unlabel", "fewer", "move", "evict")


class Team:
    """A namespace with its placement, which is edited within an hour by fewer removals than need a confirmation."""

    def __init__(self, number, chance):
        self.name, self.chance = f"team-{number:02}", chance
        self.kind = ("one", "some", "all")[number % 3]
        self.cluster = chance.choice(CLUSTERS)
        self.objects = {f"c{each}": "yes" for each in range(OBJECTS)}
        self.removed = self.left = 0

    @property
    def policy(self):
        return {"one": fixed(self.cluster), "some": pick_n(5 - self.left), "all": None}[self.kind]

    def term(self):
        return {"group": "", "version": "v1", "kind": "Namespace", "name": self.name}

    def documents(self):
        scoped = [{**self.term(), "selectionScope": "NamespaceWithResourceSelectors"}, *TERMS]
        selectors = scoped if self.kind == "some" else [self.term()]
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}}
        for name in self.objects:
            made = make_config_map(name, self.name, value="0")
            yield with_metadata(made, labels={"placed": "yes"})
        yield make_placement(self.name, self.policy, selectors=selectors)

    def choices(self):
        """Return the edits that are ordinary now."""
        found = ["change", "add", "strategy"]
        if self.removed < 10:
            found += ["delete"] * 4 + (["unlabel"] * 3 if self.kind == "some" else [])
        if self.kind == "one":
            found += ["move"] * 4
        if self.kind == "some":
            found += ["evict"] + (["fewer"] * 2 if self.left < 2 else ["more"])
        if self.kind == "all":
            found += ["evict"] * 2
        return found

    async def edit(self, world):
        """Make one edit; return its name."""
        what = self.chance.choice(self.choices())
        name = self.chance.choice(sorted(name for name, placed in self.objects.items() if placed == "yes"))
        store, key = world.store, Key(name, self.name)
        match what:
            case "change":
                value = str(self.chance.randrange(10**6))
                await edit(store, CONFIG_MAP, key, lambda it: {**it, "data": {"value": value}})
            case "add":
                fresh = f"n{len(self.objects)}"
                await world.add(with_metadata(make_config_map(fresh, self.name), labels={"placed": "yes"}))
                self.objects[fresh] = "yes"
            case "delete" | "unlabel":
                if what == "delete":
                    await store.delete(CONFIG_MAP, key)
                else:
                    await edit(store, CONFIG_MAP, key, lambda it: with_metadata(it, labels={"placed": None}))
                self.objects[name] = "no"
                self.removed += 1
            case "strategy":
                most = self.chance.choice([1, 2, "50%"])
                await world.change(PLACEMENT, self.name, strategy={"rollingUpdate": {"maxUnavailable": most}})
            case "move":
                self.cluster = self.chance.choice([each for each in CLUSTERS if each != self.cluster])
                await world.change(PLACEMENT, self.name, policy=self.policy)
            case "fewer" | "more":
                self.left += 1 if what == "fewer" else -1
                await world.change(PLACEMENT, self.name, policy=self.policy)
            case "evict":
                spec = {"placementName": self.name, "clusterName": self.chance.choice(world.bound(self.name))}
                metadata = {"name": f"{self.name}-{self.chance.randrange(10**9)}"}
                await store.create(
                    EVICTION,
                    {"apiVersion": EVICTION.api_version, "kind": EVICTION.kind, "metadata": metadata, "spec": spec},
                )
        return what


async def test_nothing_needs_confirmation():
    chance = random.Random(SEED)
    made = Counter()
    async with running() as world:
        await world.add(*(make_member(name, nodes=number + 1) for number, name in enumerate(CLUSTERS)))
        await world.until(lambda: all(map(world.has_joined, CLUSTERS)))
        teams = [Team(number, chance) for number in range(TEAMS)]
        for team in teams:
            await world.add(*team.documents())
        await world.until(lambda: all(world.bound(team.name) for team in teams))
        for _ in range(ROUNDS):
            for team in teams:
                made[await team.edit(world)] += 1
            await world.until(lambda: True)
            assert [each for team in teams for each in pending(world, team)] == []
        assert world.events("RemovalPending") == []
        for team in teams:
            (cluster, *_) = world.bound(team.name)
            for name, placed in team.objects.items():
                found = await world.on_member(cluster, CONFIG_MAP, name, team.name)
                assert (found is not None) is (placed == "yes"), (team.name, name)
    assert sum(made.values()) == EDITS
    assert sum(made[what] for what in REMOVALS) >= 0.3 * EDITS, made
    assert min(made["move"], made["evict"], made["change"]) >= 0.04 * EDITS, made


def pending(world, team):
    document = world.cache.get(PLACEMENT, team.name) or {}
    return [each["message"] for each in conditions_of(document) if each["type"] == "RemovalPending"]
