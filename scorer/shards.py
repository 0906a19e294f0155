"""Distribution of a hub's work to replicas: the shard of each object, and the replica of each shard.

Both use rendezvous hashing: the candidate whose name gives the largest hash together with the name of the object wins.
The result is equal in every process, independently of Python's version and hash seed.

A shard is not moved away from a replica with at most its fair share, because every move interrupts work. Example: with
4 shards on 2 replicas, a third replica gets one shard, and the other 3 shards are not moved.

Source: Thaler and Ravishankar, A name-based mapping scheme for rendezvous, 1996.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

MOST_SHARDS: Final = 64
"""Maximum number of shards, more than any API server could serve."""


@dataclass(frozen=True, slots=True)
class Share:
    """One shard of the work. The default is all of it."""

    shard: int = 0
    count: int = 1

    def owns(self, owner: str) -> bool:
        """Return whether the object named *owner* belongs to the shard."""
        return self.count == 1 or shard_of(owner, self.count) == self.shard


WHOLE: Final = Share()


@lru_cache(maxsize=1 << 16)
def shard_of(owner: str, count: int) -> int:
    """Return the shard of the object named *owner*, 0 to *count* - 1.

    An additional shard moves only the objects that it receives.
    """
    return max(range(count), key=lambda shard: _weight(owner, str(shard)))


def fair_shares(count: int, shards_by_replica: Mapping[str, frozenset[int]]) -> dict[str, frozenset[int]]:
    """Assign *count* shards to replicas, so that their numbers of shards differ by at most one.

    A replica keeps its shards up to its share, and the rest is assigned to those with room. The result depends only on
    the arguments, so that all replicas compute the same.

    Args:
        count: The number of shards.
        shards_by_replica: The live replicas, at least one, and the shards of each. A shard has at most one replica.
    """
    least, larger = divmod(count, len(shards_by_replica))
    # The replicas with the most shards get the larger share, so that no shard moves needlessly. Example: of 5 shards,
    # a works on 3 and b on 2. With the larger share for b, a would have to stop a shard only for b to start it.
    by_load = sorted(shards_by_replica, key=lambda replica: (-len(shards_by_replica[replica]), replica))
    room = {replica: least + (place < larger) for place, replica in enumerate(by_load)}
    shares: dict[str, set[int]] = {replica: set() for replica in shards_by_replica}

    def deal(pairs: set[tuple[int, str]]) -> None:
        assigned: set[int] = set()
        for shard, replica in sorted(pairs, key=lambda pair: (-_weight(str(pair[0]), pair[1]), pair)):
            if shard not in assigned and len(shares[replica]) < room[replica]:
                shares[replica].add(shard)
                assigned.add(shard)

    deal({(shard, replica) for replica, shards in shards_by_replica.items() for shard in shards if shard < count})
    assigned = set().union(*shares.values())
    deal({(shard, replica) for shard in range(count) if shard not in assigned for replica in shards_by_replica})
    return {replica: frozenset(shards) for replica, shards in shares.items()}


def _weight(shard: str, candidate: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{candidate} {shard}".encode(), digest_size=8).digest())
