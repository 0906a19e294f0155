"""Live checks on upgrade strategies and runs, against the current state of the hub.

Source: docs/specifications/upgrade-runs.md 4.1 and 4.2.
"""

from collections.abc import Collection, Iterator, Mapping, Set
from typing import Final

from pydantic import ValidationError

from scorer.api import kinds
from scorer.api.meta import JsonObject, json_equal
from scorer.api.unstructured.documents import dict_at, dicts_at, is_deleting, name_of, spec_of, text_at
from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import UpgradeRunSpec, UpgradeRunState
from scorer.api.upgrade.strategy import StrategySpec
from scorer.api.upgrade.version_catalog import VersionCatalogSpec, VersionPhase
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import format_count, format_share, quote
from scorer.membership.member_status import JOINED
from scorer.upgrade.back_ends.inventories import reported_version
from scorer.upgrade.members.member import GROUP_LABEL, Member, read_member
from scorer.upgrade.strategy.selection import MemberInMultipleGroupsError, MemberSelectionError, one_by_one, select
from scorer.upgrade.versions.catalog import Region, ReleaseCatalog
from scorer.upgrade.versions.comparison import is_alias, is_version, parse_version
from scorer.windows.member_windows import MemberWindows
from webhook.validation.framework.context import Context, UnknownStateError
from webhook.validation.framework.field import LONGEST_WARNING, SPEC, FieldWarning
from webhook.validation.framework.relations import is_same_object
from webhook.validation.live.check import LiveCheck, timed, with_names

VERSION: Final = SPEC / "upgrade" / "kubernetesVersion"

_AIM: Final = ("upgrade", "strategy", "strategyRef", "memberSelector")
_UNFINISHED: Final = (UpgradeState.NOT_STARTED, UpgradeState.RUNNING, UpgradeState.PENDING, UpgradeState.STOPPING)
_NO_WINDOWS: Final = MemberWindows()


def warn_about_groups(document: JsonObject | None, _old: JsonObject | None, context: Context) -> Iterator[FieldWarning]:
    """The groups of a strategy and the labels of members do not match (C-40, C-41, C-42)."""
    if document is None:
        return
    strategy = _read_sequence(spec_of(document))
    members = _members(context)
    if not members:
        return
    yield from _warn_about_labels(strategy, members)
    yield from _warn_about_several(strategy, members, SPEC / "stages")


def _warn_about_labels(strategy: StrategySpec, members: Collection[Member]) -> Iterator[FieldWarning]:
    """A group has no member with its label (C-40), or members have the label of an unlisted group (C-41)."""
    named = {
        group.name: SPEC / "stages" / i / "groups" / j
        for i, stage in enumerate(strategy.stages)
        for j, group in enumerate(stage.groups)
        if group.member_selector is None
    }
    carried = [label for member in members if (label := member.labels.get(GROUP_LABEL))]
    for name in sorted(named.keys() - set(carried)):
        yield FieldWarning(named[name], f"no member has the group label {quote(name)}", "C-40")
    if named and (others := sum(label not in named for label in carried)):
        message = f"{others} of {format_count(len(members), 'member')} have a group label that no stage lists"
        yield FieldWarning(SPEC / "stages", message, "C-41")


def _warn_about_several(strategy: StrategySpec, members: Collection[Member], at: FieldPath) -> Iterator[FieldWarning]:
    """A member is in several groups: no run of the strategy starts (C-42)."""
    try:
        select(strategy, None, members)
    except MemberInMultipleGroupsError:
        yield FieldWarning(at, "a member is in several groups, so a run does not start", "C-42")
    except MemberSelectionError as error:
        raise UnknownStateError("memberSelector") from error


def warn_about_run(document: JsonObject | None, old: JsonObject | None, context: Context) -> Iterator[FieldWarning]:
    """The strategy, the members, their versions and other runs prevent or limit a run (C-42 to C-47, C-56).

    One check, because all of these depend on the members of the run.
    """
    if document is None or not _is_asked(document, old):
        return
    name = text_at(document, "spec", "strategyRef", "name")
    if name and context.hub.get(kinds.UPGRADE_STRATEGY, name) is None:
        at = SPEC / "strategyRef" / "name"
        yield FieldWarning(at, f"there is no {kinds.UPGRADE_STRATEGY.kind} {quote(name)} yet", "C-56")
        return
    spec = _read_run(document)
    strategy, narrowed = _sequence(spec, context), _narrowed(spec, context)
    several = list(_warn_about_several(strategy, narrowed, SPEC / ("strategyRef" if name else "strategy")))
    yield from several
    if several:
        return
    names = {name for found in select(strategy, None, narrowed).values() for name in found}
    members = [member for member in narrowed if member.name in names]
    version = spec.upgrade.kubernetes_version
    if members and version is not None and is_version(version):
        yield from _warn_about_versions(version, members, context)
    yield from _warn_about_other_runs(document, names, context)


def _warn_about_versions(target: str, members: Collection[Member], context: Context) -> Iterator[FieldWarning]:
    """Members are ahead (C-43) or too far behind (C-44), or the version is a preview (C-45) or unpublished (C-46)."""
    wanted, alias = parse_version(target), is_alias(target)
    documents, requests = _documents(context), _requests(context)
    lower = far = 0
    for member in timed(members, context):
        text = reported_version(documents[member.name], requests.get(member.name, ()))
        if not is_version(text):
            continue
        now = parse_version(text)
        lower += wanted.line < now.line if alias else wanted < now
        far += wanted.major == now.major and wanted.minor > now.minor + 1
    total = format_count(len(members), "member")
    if lower:
        yield FieldWarning(VERSION, f"{lower} of {total} will be skipped because of a higher version", "C-43")
    if far:
        yield FieldWarning(
            VERSION, f"{format_share(far, len(members), 'member')} more than one minor version behind", "C-44"
        )
    yield from _warn_about_publication(target, members, context)


def _warn_about_publication(target: str, members: Collection[Member], context: Context) -> Iterator[FieldWarning]:
    try:
        catalog = ReleaseCatalog.of(_catalogs(context))
    except UnknownStateError:
        return
    regions = {name: catalog.region(name) for name in {member.region for member in members}}
    without = {name for name, region in regions.items() if not _offers(region, target)}
    if missing := sum(member.region in without for member in members):
        total = format_count(len(members), "member")
        message = f"{missing} of {total} will wait: the catalog of the region lacks the version"
        yield FieldWarning(VERSION, message, "C-46")
    if any(_is_preview(region, target) for region in regions.values()):
        yield FieldWarning(VERSION, f"{quote(target)} is a preview version in a catalog", "C-45")


def _offers(region: Region, target: str) -> bool:
    """Return whether a region offers a version or, for an alias, any patch of its minor version."""
    if not is_alias(target) or region.kubernetes is None:
        return region.offers(target)
    line = parse_version(target).line
    return any(
        is_version(release.version) and parse_version(release.version).line == line for release in region.kubernetes
    )


def _is_preview(region: Region, target: str) -> bool:
    """Return whether a region lists a version as a preview. False for an alias, whose patch is not known yet."""
    if is_alias(target):
        return False
    return any(
        release.phase is VersionPhase.PREVIEW
        and is_version(release.version)
        and parse_version(release.version) == parse_version(target)
        for release in region.kubernetes or ()
    )


def _warn_about_other_runs(document: JsonObject, members: Set[str], context: Context) -> Iterator[FieldWarning]:
    """Other unfinished runs include some of the members (C-47). Only one run at a time upgrades a member."""
    others = [
        name_of(other)
        for other in timed(context.hub.list(kinds.UPGRADE_RUN), context)
        if _is_unfinished(other) and not is_same_object(document, other) and _shares(other, members)
    ]
    if others:
        message = with_names(
            "other unfinished runs include some of its members", others, LONGEST_WARNING - len("spec: ")
        )
        yield FieldWarning(SPEC, message, "C-47")


def _is_unfinished(run: JsonObject) -> bool:
    state = text_at(run, "status", "state") or UpgradeState.NOT_STARTED
    return state in _UNFINISHED and not is_deleting(run)


def _shares(run: JsonObject, members: Set[str]) -> bool:
    """Return whether any of *members* is in the status of a run."""
    return any(
        text_at(member, "name") in members
        for stage in dicts_at(run, "status", "stages")
        for group in dicts_at(stage, "groups")
        for member in dicts_at(group, "members")
    )


def _is_asked(document: JsonObject, old: JsonObject | None) -> bool:
    """Return whether a write creates or starts a run, or changes its goal. A started run cannot change its goal."""
    if old is None:
        return True
    new, stored = spec_of(document), spec_of(old)
    starts = new.get("state") == UpgradeRunState.RUN and stored.get("state") != UpgradeRunState.RUN
    return starts or not all(json_equal(new.get(field), stored.get(field)) for field in _AIM)


def _sequence(spec: UpgradeRunSpec, context: Context) -> StrategySpec:
    """Return the stages that a run would follow.

    Raises:
        UnknownStateError: Its strategy does not exist, is unknown or is malformed.
    """
    if spec.strategy is not None:
        return spec.strategy
    if spec.strategy_ref is None:
        return one_by_one()
    strategy = context.hub.get(kinds.UPGRADE_STRATEGY, spec.strategy_ref.name)
    if strategy is None:
        raise UnknownStateError(kinds.UPGRADE_STRATEGY, spec.strategy_ref.name)
    return _read_sequence(spec_of(strategy))


def _narrowed(spec: UpgradeRunSpec, context: Context) -> list[Member]:
    """Return the members that match the selector of a run, or all without a selector.

    Raises:
        UnknownStateError: The selector is malformed, or the members are unknown.
    """
    try:
        return [
            member
            for member in _members(context)
            if spec.member_selector is None or spec.member_selector.matches(member.labels)
        ]
    except ValueError as error:
        raise UnknownStateError("memberSelector") from error


def _members(context: Context) -> list[Member]:
    """Return the members that have joined and are not being deleted."""
    return [read_member(document, _NO_WINDOWS, None) for document in _documents(context).values()]


def _documents(context: Context) -> Mapping[str, JsonObject]:
    return {
        name_of(document): document
        for document in timed(context.hub.list(kinds.MEMBER_CLUSTER), context)
        if _has_joined(document) and not is_deleting(document)
    }


def _has_joined(member: JsonObject) -> bool:
    return any(
        condition.get("type") == JOINED and condition.get("status") == "True"
        for condition in dicts_at(member, "status", "conditions")
    )


def _requests(context: Context) -> Mapping[str, list[JsonObject]]:
    requests: dict[str, list[JsonObject]] = {}
    try:
        for request in timed(context.hub.list(kinds.UPGRADE_REQUEST), context):
            requests.setdefault(text_at(request, "spec", "memberName"), []).append(request)
    except UnknownStateError:
        pass
    return requests


def _catalogs(context: Context) -> Iterator[VersionCatalogSpec]:
    for document in context.hub.list(kinds.VERSION_CATALOG):
        try:
            yield VersionCatalogSpec.read(dict_at(document, "spec"))
        except ValidationError:
            continue


def _read_sequence(spec: JsonObject) -> StrategySpec:
    try:
        return StrategySpec.read(spec)
    except ValidationError as error:
        raise UnknownStateError("stages") from error


def _read_run(document: JsonObject) -> UpgradeRunSpec:
    try:
        return UpgradeRunSpec.read(spec_of(document))
    except ValidationError as error:
        raise UnknownStateError("spec") from error


STRATEGY_CHECKS: Final[tuple[LiveCheck, ...]] = (warn_about_groups,)
RUN_CHECKS: Final[tuple[LiveCheck, ...]] = (warn_about_run,)
