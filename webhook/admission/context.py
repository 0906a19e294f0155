"""What admission rules may look at besides the object itself.

All of it is handed in: the kinds the hub serves, the other objects on it, who asks, the switches and
the time. A `Context()` is an empty hub, asked by harbormaster's own controller.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType

from scorer.api.kinds import KINDS, Kind, group_kind
from scorer.api.meta import JsonObject
from scorer.api.staged_update import RunState

OWN_CONTROLLER = "system:serviceaccount:harbormaster-system:harbormaster"

_NO_KINDS: Mapping[tuple[str, str], Kind] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Who sends a request."""

    username: str = ""
    groups: frozenset[str] = frozenset()

    @classmethod
    def read(cls, document: object) -> "UserInfo":
        """Return the user of a request's ``userInfo``; what cannot be read is nobody."""
        if not isinstance(document, dict):
            return cls()
        username, groups = document.get("username"), document.get("groups")
        known = [group for group in groups if isinstance(group, str)] if isinstance(groups, list) else ()
        return cls(username if isinstance(username, str) else "", frozenset(known))


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """The switches of admission.

    Args:
        controllers: User names of harbormaster itself; X-50 and the guard rails do not hold for them.
        protect_works: G-11, who may write Works and InternalMemberClusters.
        guard_rail: G-04 to G-10.
        deny_member_label_changes: G-07, only with *guard_rail*.
        allowed_users: User names that count as admins for the guard rails.
        identity_by_admins_only: Only admins may change ``spec.identity`` of a MemberCluster.
        block_workloads: G-01 and G-02, no Pods and ReplicaSets on the hub.
        block_pod_disruption_budgets: G-03.
        unblocked_namespaces: Where G-01 to G-03 never hold, besides reserved namespaces: our own, above all.
        networking_agents: M-09, exported services keep a member from leaving.
        skipped_namespaces: Namespaces never placed, besides ``default``, ``kube-*`` and ``fleet-*`` (X-01).
        skipped_kinds: Group and kind of what is never selected, besides the built-in list (X-02).
        strict_overrides: X-63 denies instead of warning.
        staged_run_default_state: What an absent ``spec.state`` of a staged update run means (F-14).
    """

    controllers: frozenset[str] = frozenset({OWN_CONTROLLER})
    protect_works: bool = True
    guard_rail: bool = False
    deny_member_label_changes: bool = False
    allowed_users: frozenset[str] = frozenset()
    identity_by_admins_only: bool = False
    block_workloads: bool = False
    block_pod_disruption_budgets: bool = False
    unblocked_namespaces: frozenset[str] = frozenset()
    networking_agents: bool = False
    skipped_namespaces: frozenset[str] = frozenset()
    skipped_kinds: frozenset[tuple[str, str]] = frozenset()
    strict_overrides: bool = False
    staged_run_default_state: RunState = RunState.INITIALIZE


@dataclass(frozen=True, slots=True)
class KnownKinds:
    """The kinds the hub serves: the built-in table, our own kinds, and its custom kinds.

    Args:
        custom: By group and kind, what discovery or CustomResourceDefinitions say.
        complete: False: discovery could not be asked, so a kind not listed may still exist.
    """

    custom: Mapping[tuple[str, str], Kind] = field(default_factory=lambda: _NO_KINDS)
    complete: bool = True

    @classmethod
    def of_definitions(cls, definitions: Iterable[JsonObject]) -> "KnownKinds":
        """Return what CustomResourceDefinition objects make known; unreadable ones are left out."""
        kinds = (_kind_of_definition(definition) for definition in definitions)
        return cls({kind.group_kind: kind for kind in kinds if kind})

    def find(self, group: str, kind: str) -> Kind | None:
        """Return a kind, whatever the version."""
        return KINDS.get((group, kind)) or self.custom.get((group, kind))

    def find_served(self, group: str, version: str, kind: str) -> Kind | None:
        """Return a kind if that version of it is served."""
        known = KINDS.get((group, kind))
        if known is None or version not in known.versions:
            known = self.custom.get((group, kind))
        return known if known is not None and version in known.versions else None


def _kind_of_definition(definition: JsonObject) -> Kind | None:
    try:
        spec = definition["spec"]
        names = spec["names"]
        served = tuple(version["name"] for version in spec["versions"] if version.get("served", False))
        found = Kind(
            str(spec["group"]), served, str(names["kind"]), str(names["plural"]), spec["scope"] == "Namespaced"
        )
    except (KeyError, TypeError, AttributeError):
        return None
    return found if served else None


def _nothing(_kind: Kind) -> Sequence[JsonObject]:
    return ()


@dataclass(frozen=True, slots=True)
class Context:
    """Everything a verdict may depend on besides the object.

    Args:
        kinds: What the hub serves.
        existing: The other objects of a kind on the hub; a rule that finds none does not deny for that.
        user: Who asks.
        settings: The switches.
        now: The time of the request.
    """

    kinds: KnownKinds = field(default_factory=KnownKinds)
    existing: Callable[[Kind], Sequence[JsonObject]] = _nothing
    user: UserInfo = UserInfo(OWN_CONTROLLER)
    settings: AdmissionSettings = AdmissionSettings()
    now: datetime = datetime(2000, 1, 1, tzinfo=UTC)

    @classmethod
    def of_objects(
        cls,
        objects: Iterable[JsonObject],
        *,
        user: UserInfo | None = None,
        settings: AdmissionSettings | None = None,
        now: datetime | None = None,
    ) -> "Context":
        """Return the context of a hub that holds *objects*; its CustomResourceDefinitions make their kinds known."""
        by_kind: dict[tuple[str, str], list[JsonObject]] = {}
        for document in objects:
            by_kind.setdefault(group_kind(document), []).append(document)
        context = cls(
            kinds=KnownKinds.of_definitions(by_kind.get(("apiextensions.k8s.io", "CustomResourceDefinition"), ())),
            existing=lambda kind: by_kind.get(kind.group_kind, ()),
        )
        return replace(
            context, user=user or context.user, settings=settings or context.settings, now=now or context.now
        )

    def asked_by(self, user: UserInfo) -> "Context":
        """Return the same context with another user."""
        return Context(self.kinds, self.existing, user, self.settings, self.now)

    @property
    def is_ours(self) -> bool:
        """Whether harbormaster itself asks."""
        return self.user.username in self.settings.controllers
