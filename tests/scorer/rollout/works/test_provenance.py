"""A proof holds for one placement, member, Work, snapshot and list of overrides, and for nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from scorer.api.names import OVERRIDES, PARENT_RESOURCE_SNAPSHOT_NAME, PROVENANCE
from scorer.api.unstructured.documents import annotation, with_metadata
from scorer.rollout.works.provenance import Provenance

KEY, OTHER = b"a" * 32, b"b" * 32
WORDS = st.text(alphabet='ab-./":,', max_size=4)


def work(namespace, name, snapshot, overrides):
    annotations = {PARENT_RESOURCE_SNAPSHOT_NAME: snapshot, OVERRIDES: overrides}
    return {"metadata": {"namespace": namespace, "name": name, "annotations": annotations}}


def moved(signed, fields):
    """Return the Work of these fields with the proof of another."""
    return with_metadata(work(*fields), annotations={PROVENANCE: annotation(signed, PROVENANCE)})


@given(st.tuples(WORDS, WORDS, WORDS, WORDS), st.tuples(WORDS, WORDS, WORDS, WORDS), WORDS, WORDS)
def test_a_proof_holds_for_what_was_signed_and_for_nothing_else(fields, others, uid, other_uid):
    signed = Provenance((KEY,), uid or "u").sign(work(*fields))
    candidate = moved(signed, others)
    same = (fields, uid or "u") == (others, other_uid or "u")
    assert Provenance((KEY,), other_uid or "u").proves(candidate) is same


def test_all_keys_verify_and_the_first_signs():
    old, new = Provenance((KEY,), "u"), Provenance((OTHER, KEY), "u")
    signed = old.sign(work("n", "w", "s", ""))
    assert new.proves(signed)
    again = new.sign(signed)
    assert again != signed
    assert not old.proves(again)
    assert new.sign(again) is again


def test_without_key_or_placement_nothing_is_signed_and_nothing_proved():
    document = work("n", "w", "s", "")
    signed = Provenance((KEY,), "u").sign(document)
    for nothing in (Provenance(), Provenance((KEY,)), Provenance((), "u")):
        assert nothing.sign(document) is document
        assert not nothing.proves(signed)
