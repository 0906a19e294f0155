"""What is on the members, written down object by object, and compared after something has happened.

An object that was deleted and made again has another uid, whatever it looks like; what lay in a namespace of that name
did not come back. So what is compared is the uid. A deletion that has begun cannot be taken back and counts as one.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from e2e.fleet.bed import Fleet
from e2e.fleet.objects import CONFIG_MAP, Objects, is_deleting, make_config_map, make_namespace
from scorer.api.kinds import NAMESPACE

LOCAL = "local"
"""Name of the ConfigMap that somebody on a member keeps in each namespace, also in those that were placed there."""


@dataclass(frozen=True, order=True)
class Entry:
    """One object on one member; *namespace* is its own name where it is a Namespace."""

    member: str
    namespace: str
    kind: str
    name: str


class Ledger:
    """Keeps account of the namespaces of a test, and of the ConfigMaps in them, on all members.

    Args:
        fleet: Where.
        prefix: Of the names of the namespaces that count.
    """

    def __init__(self, fleet: Fleet, prefix: str) -> None:
        self._fleet = fleet
        self._prefix = prefix
        self.entries: dict[Entry, str] = {}

    def add_local(self, *namespaces: str) -> None:
        """Have somebody on every member put something of their own into each namespace, and into *namespaces*."""
        for objects in self._fleet.clusters.values():
            there = self._namespaces(objects)
            for name in set(namespaces) - there:
                objects.create(make_namespace(name))
            for name in there | set(namespaces):
                if objects.find(CONFIG_MAP, LOCAL, name) is None:
                    objects.create(make_config_map(LOCAL, name, only="here"))

    def record(self) -> None:
        """Write down what is there now."""
        self.entries = dict(self._now())

    def losses(self, asked: Collection[tuple[str, str]] = ()) -> list[str]:
        """What was written down and is gone, on its way out or another one now.

        Args:
            asked: Member and namespace of what was to go.
        """
        now = dict(self._now())
        return [
            f"{entry.member}: {entry.kind} {entry.namespace}/{entry.name} was {uid}, is {now.get(entry, 'gone')}"
            for entry, uid in sorted(self.entries.items())
            if now.get(entry) != uid and (entry.member, entry.namespace) not in asked
        ]

    def namespaces(self) -> Mapping[str, set[str]]:
        """The namespaces on each member."""
        return {name: self._namespaces(objects) for name, objects in self._fleet.clusters.items()}

    def _namespaces(self, objects: Objects) -> set[str]:
        names = (item["metadata"]["name"] for item in objects.all(NAMESPACE) if not is_deleting(item))
        return {name for name in names if name.startswith(self._prefix)}

    def _now(self) -> Iterator[tuple[Entry, str]]:
        for member, objects in self._fleet.clusters.items():
            for item in objects.all(NAMESPACE):
                name = item["metadata"]["name"]
                if name.startswith(self._prefix):
                    yield Entry(member, name, NAMESPACE.kind, name), _identity(item)
            for item in objects.all(CONFIG_MAP):
                namespace, name = item["metadata"]["namespace"], item["metadata"]["name"]
                if namespace.startswith(self._prefix) and name != "kube-root-ca.crt":
                    yield Entry(member, namespace, CONFIG_MAP.kind, name), _identity(item)


def _identity(item: Mapping[str, Mapping[str, str]]) -> str:
    metadata = item["metadata"]
    return f"{metadata['uid']}, on its way out" if "deletionTimestamp" in metadata else metadata["uid"]
