"""Walks over every state that a pure engine can come to: states are values, numbered by what tells them apart."""

import hashlib
from collections import deque
from dataclasses import dataclass, field

Key = tuple[object, ...]


@dataclass
class Walk:
    """What a walk has found.

    Args:
        states: Every state, by a digest of its key, as a number: walks of millions of states are to fit into memory.
        ways: From one state to another.
        came: How each state was reached first: from which one, and by what.
        passes: The state that a whole pass leads to, where one writes anything.
        restless: The states whose pass is followed by another one at once.
        back: From which states passes that are whole, members that are well and well-meaning people lead to one.
        ends: The states in which the run is over.
    """

    states: dict[bytes, int] = field(default_factory=dict)
    ways: int = 0
    came: list[tuple[int, str]] = field(default_factory=list)
    passes: dict[int, int] = field(default_factory=dict)
    restless: set[int] = field(default_factory=set)
    back: dict[int, set[int]] = field(default_factory=dict)
    ends: set[int] = field(default_factory=set)

    def number(self, key: Key, before: int, name: str) -> tuple[int, bool]:
        """Return the number of a state, and whether it is new."""
        digest = hashlib.blake2b(repr(key).encode(), digest_size=16).digest()
        known = self.states.get(digest)
        if known is not None:
            return known, False
        self.states[digest] = len(self.states)
        self.came.append((before, name))
        return len(self.states) - 1, True

    def way_to(self, number: int) -> str:
        """Return what leads to a state."""
        names: list[str] = []
        while number:
            number, name = self.came[number]
            names.append(name)
        return " · ".join(reversed(names))

    def without_rest(self) -> int:
        """Count the states from which the loop never comes to rest while nothing else happens."""
        rests: set[int] = set()
        for number in range(len(self.states)):
            path: dict[int, None] = {}
            at: int | None = number
            while at is not None and at not in rests and at not in path:
                path[at] = None
                at = self.passes.get(at)
            if at is None or at in rests:
                rests.update(path)
        return len(self.states) - len(rests)

    def written_twice(self) -> list[str]:
        """Return the ways to states in which a second pass writes, though the first one did not ask for it."""
        twice = (at for at, after in self.passes.items() if at not in self.restless and after in self.passes)
        return [self.way_to(at) for at in twice]

    def without_an_end(self) -> int:
        """Count the states from which no way of well-meaning people leads to an end."""
        seen, todo = set(self.ends), deque(self.ends)
        while todo:
            for before in self.back.get(todo.popleft(), ()):
                if before not in seen:
                    seen.add(before)
                    todo.append(before)
        return len(self.states) - len(seen)
