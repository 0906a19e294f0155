"""Profiles create runs as versions are published. Strategies report whether they can be followed.

Source: docs/specifications/upgrade-runs.md 3.2 and 12.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple

import pydantic

from scorer.api.event import Event
from scorer.api.kinds import MEMBER_CLUSTER, UPGRADE_PROFILE, UPGRADE_RUN, UPGRADE_STRATEGY, VERSION_CATALOG, Kind
from scorer.api.meta import JsonObject, first_mistake
from scorer.api.unstructured.documents import (
    dict_at,
    is_deleting,
    label,
    labels_of,
    name_of,
    spec_of,
    status_of,
    text_at,
    with_spec,
)
from scorer.api.upgrade.fields import UpgradeError
from scorer.api.upgrade.profile import ClusterUpgradeProfile
from scorer.api.upgrade.run import ClusterUpgradeRun, UpgradeRunState
from scorer.upgrade.members.member import Member, read_member
from scorer.upgrade.profiles.target import TargetErrorCode
from scorer.upgrade.profiles.triggers import PROFILE_LABEL, ProfileDecision, name_conflict_status, trigger
from scorer.upgrade.strategy.status import strategy_status
from scorer.windows.member_windows import MemberWindows
from webhook.controllers.machinery.failures import Concerned
from webhook.controllers.machinery.result import DONE, Result, TerminalError
from webhook.controllers.machinery.wiring import UPGRADES, Waker, Watch, Wiring, always
from webhook.kube.cache.changes import ObjectDelta
from webhook.kube.cache.hub import Hub
from webhook.kube.listers.upgrades import HubUpgrades, has_joined
from webhook.kube.ports import AlreadyExistsError, Key

_OF_PROFILES: Final = (UPGRADE_PROFILE, UPGRADE_STRATEGY)


class UpgradeDefinitionRef(NamedTuple):
    """Key of a profile or a strategy."""

    kind: Kind
    name: str


class UpgradeProfileController:
    """Reconciles upgrade profiles and strategies.

    Args:
        hub: The hub cluster.
        now: The clock.
        record: Records Events.
        upgrades: Reads the catalog, the runs and the members.
    """

    def __init__(
        self,
        hub: Hub,
        now: Callable[[], datetime],
        record: Callable[[JsonObject, Event], None],
        upgrades: HubUpgrades,
    ) -> None:
        self._hub = hub
        self._now = now
        self._record = record
        self._upgrades = upgrades

    def wiring(self) -> Wiring[UpgradeDefinitionRef]:
        """Return the wiring: profiles and their runs, strategies, catalogs and members enqueue keys."""
        return Wiring(
            name="upgrade_profile",
            reconcile=self.reconcile,
            concerned=lambda key: Concerned(key.kind, Key(key.name)),
            owner=always(UPGRADES),
            watches=tuple(self._watches()),
            resync=self._all,
        )

    def _watches(self) -> Iterator[Waker[UpgradeDefinitionRef]]:
        for kind in _OF_PROFILES:
            yield Watch(kind, partial(_changed, kind))
        yield Watch(UPGRADE_RUN, self._of_run)
        yield Watch(VERSION_CATALOG, self._of_catalog)
        yield Watch(MEMBER_CLUSTER, self._of_member)

    def _all(self) -> Iterator[UpgradeDefinitionRef]:
        for kind in _OF_PROFILES:
            yield from (UpgradeDefinitionRef(kind, name_of(document)) for document in self._hub.cache.list(kind))

    def _of_run(self, change: ObjectDelta) -> Iterator[UpgradeDefinitionRef]:
        """Yield the profile of a run whose state has changed. After a deletion, add profiles that need its name."""
        profile = label(change.document, PROFILE_LABEL)
        if profile and change.touches(lambda run: text_at(run, "status", "state")):
            yield UpgradeDefinitionRef(UPGRADE_PROFILE, profile)
        if change.new is None:
            yield from (
                UpgradeDefinitionRef(UPGRADE_PROFILE, name_of(document))
                for document in self._hub.cache.list(UPGRADE_PROFILE)
                if (error := _error(document)) is not None and error.code == TargetErrorCode.RUN_NAME_TAKEN
            )

    def _of_catalog(self, change: ObjectDelta) -> Iterator[UpgradeDefinitionRef]:
        if change.touches(spec_of):
            yield from (profile for profile in self._all() if profile.kind is UPGRADE_PROFILE)

    def _of_member(self, change: ObjectDelta) -> Iterator[UpgradeDefinitionRef]:
        if change.touches(_seen_of_member):
            yield from (profile for profile in self._all() if profile.kind is UPGRADE_STRATEGY)

    async def reconcile(self, key: UpgradeDefinitionRef) -> Result:
        """Reconcile one profile or strategy.

        Raises:
            TerminalError: The profile is invalid.
            StoreError: The hub refused a request, or did not respond.
        """
        document = self._hub.cache.get(key.kind, key.name)
        if document is None or is_deleting(document):
            return DONE
        if key.kind is UPGRADE_STRATEGY:
            self._hub.report(UPGRADE_STRATEGY, document, strategy_status(document, self._members(), self._now()))
            return DONE
        try:
            profile = ClusterUpgradeProfile.read(document)
        except pydantic.ValidationError as error:
            raise TerminalError(first_mistake(error)) from error
        decision = trigger(profile, self._upgrades.catalog(), self._runs_of(key.name), self._now())
        if decision.create is not None and (other := await self._make(decision.create)) not in ("", key.name):
            name = name_of(decision.create)
            decision = replace(decision, create=None, status=name_conflict_status(profile, name, other, self._now()))
        await self._carry_out(document, decision)
        return DONE

    async def _make(self, run: JsonObject) -> str:
        """Create a run, unless one of that name exists. Return the profile of that run, or "" if it has none."""
        if self._hub.cache.get(UPGRADE_RUN, name_of(run)) is None:
            with suppress(AlreadyExistsError):  # then it is in the cache
                await self._hub.create(UPGRADE_RUN, run)
        return label(self._hub.cache.get(UPGRADE_RUN, name_of(run)) or {}, PROFILE_LABEL)

    def _members(self) -> dict[str, Member]:
        return {
            name: read_member(document, MemberWindows(), None) for name, document in self._upgrades.joined().items()
        }

    def _runs_of(self, profile: str) -> list[ClusterUpgradeRun]:
        documents = {
            name_of(document)
            for document in self._hub.cache.list(UPGRADE_RUN)
            if label(document, PROFILE_LABEL) == profile
        }
        return [run for run in self._upgrades.others("") if run.metadata.name in documents]

    async def _carry_out(self, document: JsonObject, decision: ProfileDecision) -> None:
        """Write the decision of a profile. Its status follows a created run, so that a failed creation is retried."""
        for name in decision.stop:
            run = self._hub.cache.get(UPGRADE_RUN, name)
            if run is not None and text_at(run, "spec", "state") != UpgradeRunState.STOP:
                await self._hub.replace(UPGRADE_RUN, with_spec(run, state=UpgradeRunState.STOP.value))
        status = decision.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        if status != status_of(document):
            await self._hub.store_status(UPGRADE_PROFILE, document, status)
        if decision.create is not None:
            self._record(document, Event("RunGenerated", decision.status.last_trigger_message))
        elif decision.status.last_trigger_error not in (None, _error(document)):
            self._record(document, Event("TriggerFailed", decision.status.last_trigger_message, "Warning"))
        for name in decision.delete:
            run = self._hub.cache.get(UPGRADE_RUN, name)
            if run is not None and label(run, PROFILE_LABEL) == name_of(document):
                await self._hub.delete(UPGRADE_RUN, run, this_version=True)


def _changed(kind: Kind, change: ObjectDelta) -> Iterator[UpgradeDefinitionRef]:
    if change.touches(spec_of):
        yield UpgradeDefinitionRef(kind, name_of(change.document))


def _seen_of_member(member: JsonObject) -> object:
    return labels_of(member), has_joined(member), is_deleting(member)


def _error(document: JsonObject) -> UpgradeError | None:
    """Return the error that a profile's status already reports, None if it reports none."""
    trigger_error = dict_at(status_of(document), "lastTriggerError")
    return (
        UpgradeError(code=text_at(trigger_error, "code"), message=text_at(trigger_error, "message"))
        if trigger_error
        else None
    )
