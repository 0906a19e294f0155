"""The inputs of admission rules besides the object itself.

All of it is passed in: the kinds that the hub serves, the other objects on it, the user, the settings of admission and
the time. A `Context()` is an empty hub, with harbormaster's own controller as the user.

Rules that deny read `Context.existing`, where an unknown object counts as absent. Live checks, which only warn, read
`Context.hub`. It raises `UnknownStateError` for unknown objects, and the check then yields nothing more.

Both are views of a cache, which lags behind the store, and two writes may be reviewed concurrently. A rule about other
objects therefore prevents errors but cannot guarantee an invariant, and controllers must not rely on it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from math import inf
from types import MappingProxyType
from typing import Final, NoReturn, Protocol, TypeVar

from pydantic import ValidationError

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.kinds import BUILT_IN, CUSTOM_RESOURCE_DEFINITION, KINDS, MEMBER_CLUSTER, Kind, group_kind
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import indexed_values, name_of, namespace_of
from scorer.api.values.label_selector import LabelSelector
from scorer.fleet import Fleet
from webhook.access.user import UserInfo
from webhook.settings.admission import OWN_CONTROLLER, AdmissionSettings
from webhook.validation.framework.label_index import LabelIndexes

_NO_KINDS: Mapping[tuple[str, str], Kind] = MappingProxyType({})
_BUILT_IN_GROUPS: Final = frozenset(kind.group for kind in BUILT_IN)


@dataclass(frozen=True, slots=True)
class HubKinds:
    """The kinds that the hub serves: the built-in table, our own kinds, and its custom kinds.

    Args:
        custom: By group and kind, from discovery or CustomResourceDefinitions.
        complete: Whether every kind is listed. If False, as without discovery, an unlisted kind may still exist.
        remedy: Action that makes an unlisted kind known, for messages. Empty: the user has none.
    """

    custom: Mapping[tuple[str, str], Kind] = field(default_factory=lambda: _NO_KINDS)
    complete: bool = True
    remedy: str = ""

    @classmethod
    def of_definitions(
        cls, definitions: Iterable[JsonObject], *, complete: bool = True, remedy: str = ""
    ) -> "HubKinds":
        """Return the kinds that CustomResourceDefinitions define. Unreadable definitions are skipped."""
        kinds = (_kind_of_definition(definition) for definition in definitions)
        return cls({kind.group_kind: kind for kind in kinds if kind}, complete, remedy)

    def find(self, group: str, kind: str) -> Kind | None:
        """Return a kind regardless of its versions, or None if it is unknown."""
        return KINDS.get((group, kind)) or self.custom.get((group, kind))

    def find_served(self, group: str, version: str, kind: str) -> Kind | None:
        """Return a kind if that version of it is served, else None."""
        built_in = KINDS.get((group, kind))
        if built_in is None or version not in built_in.versions:
            built_in = self.custom.get((group, kind))
        return built_in if built_in is not None and version in built_in.versions else None

    def __iter__(self) -> Iterator[Kind]:
        yield from KINDS.values()
        yield from self.custom.values()

    def may_serve(self, group: str) -> bool:
        """Return whether the hub may serve unlisted kinds of *group*. Kubernetes' own groups are listed completely."""
        return not self.complete and group not in _BUILT_IN_GROUPS


_UNKNOWN_KINDS: Final = HubKinds(complete=False)


def _kind_of_definition(definition: JsonObject) -> Kind | None:
    try:
        spec = definition["spec"]
        names = spec["names"]
        versions = tuple(version["name"] for version in spec["versions"] if version.get("served", False))
        kind = Kind(
            str(spec["group"]), versions, str(names["kind"]), str(names["plural"]), spec["scope"] == "Namespaced"
        )
    except (KeyError, TypeError, AttributeError):
        return None
    return kind if versions else None


class UnknownStateError(Exception):
    """A live check needs an unknown object, and so has no verdict."""


class OutOfTimeError(Exception):
    """The live checks of a review have timed out: the remaining ones have no verdict."""


class HubView(Protocol):
    """The known objects of the hub. Documents are shared, read-only and unchecked.

    Every method raises `UnknownStateError` if the answer is not known, which differs from an empty answer.
    """

    def get(self, kind: Kind, name: str, namespace: str = "") -> JsonObject | None:
        """Return one object, or None if it does not exist."""
        ...

    def list(self, kind: Kind, namespace: str = "") -> Collection[JsonObject]:
        """Return the objects of *kind* in any order, optionally of one namespace."""
        ...

    def labelled(self, kind: Kind, label: str, value: str, namespace: str = "") -> Collection[JsonObject]:
        """Return the objects of *kind* whose indexed *label* has *value*.

        They are in *namespace* or, if that is empty, cluster-scoped.

        The label may also be `SELECTED_OBJECTS`, with a `selection_key` as its value, or `PLACED_CONTENT`, with a value
        of `placed_in` or `placed_of`.
        """
        ...

    def candidates(self, kind: Kind, selector: LabelSelector, namespace: str = "") -> Collection[JsonObject]:
        """Return the objects of *kind*, optionally of one namespace, that *selector* may match, and possibly others."""
        ...

    @property
    def fleet(self) -> Fleet:
        """All member clusters."""
        ...


class UnknownHub:
    """A hub whose objects are unknown: every method raises `UnknownStateError`."""

    def get(self, kind: Kind, name: str, namespace: str = "") -> JsonObject | None:
        """See `HubView.get`."""
        raise UnknownStateError(kind, name, namespace)

    def list(self, kind: Kind, namespace: str = "") -> Collection[JsonObject]:
        """See `HubView.list`."""
        raise UnknownStateError(kind, namespace)

    def labelled(self, kind: Kind, label: str, value: str, namespace: str = "") -> Collection[JsonObject]:
        """See `HubView.labelled`."""
        raise UnknownStateError(kind, label, value, namespace)

    def candidates(self, kind: Kind, selector: LabelSelector, namespace: str = "") -> Collection[JsonObject]:
        """See `HubView.candidates`."""
        raise UnknownStateError(kind, selector, namespace)

    @property
    def fleet(self) -> Fleet:
        """See `HubView.fleet`."""
        raise UnknownStateError(MEMBER_CLUSTER)


class DocumentHub:
    """A hub with the objects of some files. A kind without an object in the files is unknown.

    Each index is made once, so that a review of all objects takes time linear in their number.
    """

    def __init__(self, documents: Mapping[tuple[str, str], Sequence[JsonObject]]) -> None:
        self._documents = documents
        self._named: dict[tuple[str, str], Mapping[tuple[str, str], JsonObject]] = {}
        self._in_namespace: dict[tuple[str, str], Mapping[str, list[JsonObject]]] = {}
        self._labelled: dict[tuple[tuple[str, str], str], Mapping[tuple[str, str], list[JsonObject]]] = {}
        self._by_labels = LabelIndexes()

    def get(self, kind: Kind, name: str, namespace: str = "") -> JsonObject | None:
        """See `HubView.get`."""
        documents = self._of(kind)
        if (index := self._named.get(kind.group_kind)) is None:
            # Reversed: the first of several objects with the same name counts.
            index = {(name_of(document), namespace_of(document)): document for document in reversed(documents)}
            self._named[kind.group_kind] = index
        return index.get((name, namespace))

    def list(self, kind: Kind, namespace: str = "") -> Collection[JsonObject]:
        """See `HubView.list`."""
        documents = self._of(kind)
        if not namespace:
            return documents
        if (index := self._in_namespace.get(kind.group_kind)) is None:
            index = _grouped((namespace_of(document), document) for document in documents)
            self._in_namespace[kind.group_kind] = index
        return index.get(namespace, ())

    def labelled(self, kind: Kind, label: str, value: str, namespace: str = "") -> Collection[JsonObject]:
        """See `HubView.labelled`."""
        documents = self._of(kind)
        if (index := self._labelled.get((kind.group_kind, label))) is None:
            index = _grouped(
                ((found, namespace_of(document)), document)
                for document in documents
                for found in indexed_values(document, label)
            )
            self._labelled[kind.group_kind, label] = index
        return index.get((value, namespace), ())

    def candidates(self, kind: Kind, selector: LabelSelector, namespace: str = "") -> Collection[JsonObject]:
        """See `HubView.candidates`."""
        return self._by_labels.of(kind, namespace, self.list).candidates(selector)

    def _of(self, kind: Kind) -> Sequence[JsonObject]:
        documents = self._documents.get(kind.group_kind)
        if not documents:
            raise UnknownStateError(kind)
        return documents

    @cached_property
    def fleet(self) -> Fleet:
        """See `HubView.fleet`. Members that cannot be parsed are skipped."""
        return Fleet.of(filter(None, map(_read_member, self.list(MEMBER_CLUSTER))))


_GroupKey = TypeVar("_GroupKey")


def _grouped(pairs: Iterable[tuple[_GroupKey, JsonObject]]) -> Mapping[_GroupKey, list[JsonObject]]:
    groups: dict[_GroupKey, list[JsonObject]] = {}
    for key, document in pairs:
        groups.setdefault(key, []).append(document)
    return groups


def _read_member(document: JsonObject) -> MemberCluster | None:
    try:
        return MemberCluster.read(document)
    except ValidationError:
        return None


NOTHING_KNOWN: HubView = UnknownHub()


def _nothing(_kind: Kind) -> Sequence[JsonObject]:
    return ()


def _standing_still() -> float:
    return 0.0


def _raise(_check: str, error: Exception) -> NoReturn:
    raise error


_OWN_CONTROLLER: Final = UserInfo(OWN_CONTROLLER)
_DEFAULTS: Final = AdmissionSettings()


UNKNOWN_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""The time of a context that has no clock. Nothing expires."""


@dataclass(frozen=True, slots=True)
class Context:
    """Everything that a verdict may depend on besides the object.

    Args:
        kinds: The kinds that the hub serves.
        existing: Returns the objects of a kind on the hub. No rule denies a write because the result is empty.
        user: The user who sent the request.
        settings: The settings of admission.
        now: The time of the request.
        hub: The view of the hub for live checks.
        clock: Monotonic clock in seconds, for the timeout of live checks. By default, no time passes.
        on_failure: Called with the name of a live check that failed, and its error. By default, raises the error.
        deadline: End of the time for live checks, on *clock*.
    """

    kinds: HubKinds = field(default_factory=HubKinds)
    existing: Callable[[Kind], Sequence[JsonObject]] = _nothing
    user: UserInfo = _OWN_CONTROLLER
    settings: AdmissionSettings = _DEFAULTS
    now: datetime = UNKNOWN_TIME
    hub: HubView = NOTHING_KNOWN
    clock: Callable[[], float] = _standing_still
    on_failure: Callable[[str, Exception], None] = _raise
    deadline: float = inf

    @classmethod
    def of_objects(
        cls,
        objects: Iterable[JsonObject],
        *,
        user: UserInfo | None = None,
        settings: AdmissionSettings | None = None,
        now: datetime | None = None,
        on_failure: Callable[[str, Exception], None] = _raise,
        kinds: HubKinds | None = None,
    ) -> "Context":
        """Return the context of a hub that holds *objects*.

        Args:
            objects: The objects of the hub.
            user: The user who sends requests. None means harbormaster's own controller.
            settings: The settings of admission. None means the defaults.
            now: The time of requests. None means `UNKNOWN_TIME`.
            on_failure: See the class.
            kinds: The kinds that the hub serves. None means the kinds of the CustomResourceDefinitions in *objects*.
        """
        by_kind: dict[tuple[str, str], list[JsonObject]] = {}
        for document in objects:
            by_kind.setdefault(group_kind(document), []).append(document)
        context = cls(
            kinds=kinds or HubKinds.of_definitions(by_kind.get(CUSTOM_RESOURCE_DEFINITION.group_kind, ())),
            existing=lambda kind: by_kind.get(kind.group_kind, ()),
            hub=DocumentHub(by_kind),
            on_failure=on_failure,
        )
        return replace(
            context, user=user or context.user, settings=settings or context.settings, now=now or context.now
        )

    def with_user(self, user: UserInfo) -> "Context":
        """Return the same context with another user."""
        return self._with(user, self.deadline)

    def for_unverified_caller(self) -> "Context":
        """Return the context for a review of unverified origin. It discloses nothing about the hub."""
        return Context(_UNKNOWN_KINDS, settings=self.settings, now=self.now, on_failure=self.on_failure)

    @property
    def is_ours(self) -> bool:
        """Whether the user is harbormaster itself."""
        return self.user.username in self.settings.controllers

    def started(self) -> "Context":
        """Return the same context with a deadline for live checks, counted from now."""
        return self._with(self.user, self.clock() + self.settings.live_seconds)

    def _with(self, user: UserInfo, deadline: float) -> "Context":
        """Return a copy, faster than `dataclasses.replace`: every validation needs several."""
        return Context(
            self.kinds,
            self.existing,
            user,
            self.settings,
            self.now,
            self.hub,
            self.clock,
            self.on_failure,
            deadline,
        )

    def check_time(self) -> None:
        """Raise `OutOfTimeError` if the deadline for live checks has passed."""
        if self.clock() > self.deadline:
            raise OutOfTimeError
