"""Provenance: an HMAC on a Work, which proves that the loop wrote it for a placement and a cluster.

The agent of a member can write to the Works in its namespace, labels and annotations included. A label that names a
placement is therefore a claim. Before the loop acts on a claim that nothing else confirms, such as a Work without a
binding (`scorer.rollout.works.orphans`), it requires this proof.

The key never leaves the hub: agents cannot read it. Two keys are valid during a rotation.

Source: docs/specifications/rollout.md 9.5.
"""

import dataclasses
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from scorer.api.meta import JsonObject, dump_json
from scorer.api.names import OVERRIDES, PARENT_RESOURCE_SNAPSHOT_NAME, PROVENANCE
from scorer.api.unstructured.documents import annotation, is_deleting, name_of, namespace_of, with_metadata
from scorer.rollout.works.plan import WorkPlan
from scorer.rollout.writes import Verb, Write, replace

SHORTEST_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Provenance:
    """The proof that Works belong to one placement.

    Args:
        keys: The first one signs, all of them verify. Empty: nothing is signed, and nothing can be proved.
        placement_uid: ``metadata.uid`` of the placement. Empty: nothing is signed or proved, as without keys.
    """

    keys: tuple[bytes, ...] = ()
    placement_uid: str = ""

    def sign(self, work: JsonObject) -> JsonObject:
        """Return a Work with its proof: the same object if the proof is current, or without a key."""
        if not self.keys or not self.placement_uid:
            return work
        proof = self._proof(self.keys[0], work)
        return work if annotation(work, PROVENANCE) == proof else with_metadata(work, annotations={PROVENANCE: proof})

    def proves(self, work: JsonObject) -> bool:
        """Return whether the loop wrote a Work for this placement, with the snapshot and overrides that it names."""
        proof = annotation(work, PROVENANCE).encode()
        valid = (hmac.compare_digest(proof, self._proof(key, work).encode()) for key in self.keys)
        return bool(self.placement_uid) and any(valid)

    def sign_plan(self, plan: WorkPlan, works: Iterable[JsonObject]) -> WorkPlan:
        """Return a plan that also signs the Works without a current proof: those of earlier releases, or of an old key.

        A plan with a problem is returned unchanged.

        Args:
            plan: The writes to the Works of a binding.
            works: These Works, as stored.
        """
        if plan.problem is not None:
            return plan
        names = {write.name for write in plan.writes}
        remaining = (work for work in works if name_of(work) not in names and not is_deleting(work))
        pairs = ((work, self.sign(work)) for work in remaining)
        signatures = tuple(replace(signed_work) for work, signed_work in pairs if signed_work is not work)
        return dataclasses.replace(plan, writes=tuple(map(self._sign, plan.writes)), signatures=signatures)

    def _sign(self, write: Write) -> Write:
        return write if write.verb is Verb.DELETE else Write(write.verb, self.sign(write.document))

    def _proof(self, key: bytes, work: JsonObject) -> str:
        content = annotation(work, PARENT_RESOURCE_SNAPSHOT_NAME), annotation(work, OVERRIDES)
        payload = dump_json([self.placement_uid, namespace_of(work), name_of(work), *content])
        return hmac.new(key, payload, sha256).hexdigest()
