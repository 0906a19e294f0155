"""How the work of one hub is divided between replicas: what belongs to which shard, and who gets which shards.

Both are rendezvous hashing: of all candidates, that one wins whose name gives the largest number when it is hashed
together with the name of the thing. Equal in every process, whatever its version of Python and its hash seed.

A shard stays with the replica that works on it as long as that has no more than its fair share: every move stops work.

Source: Thaler and Ravishankar, A name-based mapping scheme for rendezvous, 1996.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

MOST_SHARDS: Final = 64
"""More than any API server could serve."""


@dataclass(frozen=True, slots=True)
class Share:
    """A shard, as a part of the work; all of it by default."""

    shard: int = 0
    count: int = 1

    def owns(self, owner: str) -> bool:
        """Say whether what *owner* names belongs to it."""
        return self.count == 1 or shard_of(owner, self.count) == self.shard


WHOLE: Final = Share()


@lru_cache(maxsize=1 << 16)
def shard_of(owner: str, count: int) -> int:
    """Return to which of *count* shards belongs what *owner* names, 0 to *count* - 1.

    With one shard more, only what goes to the new one moves.
    """
    return max(range(count), key=lambda shard: _weight(owner, str(shard)))


def fair_shares(count: int, working: Mapping[str, frozenset[int]]) -> dict[str, frozenset[int]]:
    """Return which replica is to work on which of *count* shards: as many each, give or take one.

    Nothing moves that need not: a replica keeps what it works on, up to its share, and gets of the rest. Every replica
    that asks the same gets the same answer.

    Args:
        count: The number of shards.
        working: The live replicas, at least one, and the shards that each works on; a shard is with one at most.
    """
    least, larger = divmod(count, len(working))
    # One more for those that have the most already, so that nothing moves when there are as many as before.
    by_load = sorted(working, key=lambda replica: (-len(working[replica]), replica))
    room = {replica: least + (place < larger) for place, replica in enumerate(by_load)}
    shares: dict[str, set[int]] = {replica: set() for replica in working}

    def deal(pairs: set[tuple[int, str]]) -> None:
        assigned: set[int] = set()
        for shard, replica in sorted(pairs, key=lambda pair: (-_weight(str(pair[0]), pair[1]), pair)):
            if shard not in assigned and len(shares[replica]) < room[replica]:
                shares[replica].add(shard)
                assigned.add(shard)

    deal({(shard, replica) for replica, shards in working.items() for shard in shards if shard < count})
    assigned = set().union(*shares.values())
    deal({(shard, replica) for shard in range(count) if shard not in assigned for replica in working})
    return {replica: frozenset(shards) for replica, shards in shares.items()}


def _weight(thing: str, candidate: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{candidate} {thing}".encode(), digest_size=8).digest())
