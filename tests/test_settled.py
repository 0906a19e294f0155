"""The state that the benchmark of a resync begins with is the one that the loop makes."""

import re
from collections import Counter

import orjson

from scorer.api.kinds import BINDING, PLACEMENT, SECRET, WORK
from scorer.api.names import PARENT_PLACEMENT, PROVENANCE
from scorer.api.unstructured.documents import label, name_of, namespace_of, spec_of, with_metadata
from scorer.placement.binding_plan import lost_binding
from scorer.rollout.works.provenance import Provenance
from tests.bench.settled import keys_of, placed, settled

_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


def comparable(state):
    """Return the objects of a hub by key, with what differs from hub to hub in the words of its meaning."""
    words = {}
    placements = {name_of(each): each for each in state[PLACEMENT]}
    for each in state[BINDING]:
        placement, cluster = label(each, PARENT_PLACEMENT), spec_of(each)["targetCluster"]
        assert name_of(each) == lost_binding(placements[placement], cluster, "", (), {})["metadata"]["name"]
        words[name_of(each)] = f"binding of {placement} on {cluster}"
    for documents in state.values():
        for each in documents:
            name = words.get(name_of(each), name_of(each))
            words[each["metadata"]["uid"]] = f"uid of {each['kind']} {namespace_of(each)}/{name}"
    assert len(words) == len(set(words.values()))
    keys, signed = keys_of(state), state[WORK]
    assert all(
        Provenance(keys, placements[label(each, PARENT_PLACEMENT)]["metadata"]["uid"]).proves(each) for each in signed
    )
    state = {**state, SECRET: [], WORK: [with_metadata(each, annotations={PROVENANCE: None}) for each in signed]}
    pattern = re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))))
    found = {}
    for kind, documents in state.items():
        for each in documents:
            metadata = {name: value for name, value in each["metadata"].items() if name != "resourceVersion"}
            text = orjson.dumps({**each, "metadata": metadata}, option=orjson.OPT_SORT_KEYS).decode()
            text = pattern.sub(lambda word: words[word[0]], _TIME.sub("a time", text))
            assert not _UID.search(text)
            key = kind.kind, namespace_of(each), words.get(name_of(each), name_of(each))
            found[key] = _unordered(orjson.loads(text)) if kind == BINDING else orjson.loads(text)
    return found


def _unordered(binding):
    """Return a binding with its finalizers sorted: two controllers put one on each, whichever comes first."""
    return {**binding, "metadata": {**binding["metadata"], "finalizers": sorted(binding["metadata"]["finalizers"])}}


async def test_copies_of_what_the_loop_has_made_are_what_the_loop_would_have_made():
    once, made = await placed(1, 3, 4), comparable(await placed(3, 3, 4))
    texts = settled(once, 3)
    copied = {kind: [orjson.loads(text) for text in found] for kind, found in texts.items()}
    assert comparable(copied) == made
    assert Counter(kind for kind, _, _ in made)["ClusterResourceBinding"] == 9


async def test_every_copy_is_an_object_of_its_own():
    texts = settled(await placed(1, 2, 2), 20)
    documents = [orjson.loads(text) for found in texts.values() for text in found]
    for member in ("uid", "resourceVersion"):
        assert len({each["metadata"][member] for each in documents}) == len(documents)
    assert len({name_of(each) for each in map(orjson.loads, texts[BINDING])}) == 40
    assert len(texts[WORK]) == 40
    assert len({each["status"]["conditions"][0]["lastTransitionTime"] for each in map(orjson.loads, texts[WORK])}) >= 20
