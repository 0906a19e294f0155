"""The note on a member cluster that says whose it is: which hub, and which of its members.

It is a ConfigMap in the agent's own namespace, written when an agent joins and cleared when it leaves. An agent of
another hub, or of another name, finds it and does not join: a kubeconfig that names the wrong cluster, or two hubs
that think of the same cluster as theirs, come to light before anything is applied.

Source: `scorer.membership.identity`.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from scorer.api.documents import dict_at, is_deleting, with_finalizer, without_finalizer
from scorer.api.kinds import APPLIED_WORK, KINDS
from scorer.api.meta import JsonObject
from scorer.api.names import APPLIED_WORK_CLEANUP
from scorer.membership.identity import (
    HubMember,
    Standing,
    is_let_go,
    is_ours,
    let_go,
    placed_by,
    refusal,
    standing,
    taken_up,
)
from webhook.kube.client import ApiServer
from webhook.kube.paths import ApiPath
from webhook.kube.ports import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    Key,
    NotFoundError,
    Store,
    StoreError,
)
from webhook.member.books import on_latest

CONFIG_MAP: Final = KINDS["", "ConfigMap"]
RECORD: Final = "harbormaster-member"

_ACCOUNT: Final = "system:serviceaccount:"
_REVIEW: Final = ApiPath("apis", "authentication.k8s.io", "v1", "selfsubjectreviews")

_log = logging.getLogger(__name__)


class NotOursError(Exception):
    """The cluster is not to be the member that we are; the message says whose it is."""


async def home_of(server: ApiServer, otherwise: str) -> str:
    """Return the namespace on the member that is the agent's own: that of its ServiceAccount.

    Args:
        server: The member; it is asked who we are.
        otherwise: For an agent that comes as somebody else, or where the API server cannot tell.

    Raises:
        StoreError: It does not answer.
    """
    question = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await server.request("POST", _REVIEW, question)
    except (NotFoundError, ForbiddenError):
        return otherwise
    user = dict_at(answer, "status", "userInfo")
    name = str(user.get("username") or "")
    return name.removeprefix(_ACCOUNT).partition(":")[0] if name.startswith(_ACCOUNT) else otherwise


class Registration:
    """The note of one agent.

    Args:
        cluster: Of which member the agent is.
        member: The cluster.
        home: Finds out the agent's own namespace there.
        take_over: Have the cluster be ours, whatever it was; once.
    """

    def __init__(
        self, cluster: str, member: Store, home: Callable[[], Awaitable[str]], *, take_over: bool = False
    ) -> None:
        self._cluster = cluster
        self._member = member
        self._home = home
        self._take_over = take_over

    async def claim(self, hub: str) -> None:
        """Write down that the cluster is ours, and make ready for applying.

        Args:
            hub: Its uid; empty: it does not say.

        Raises:
            NotOursError: It is another's, and nothing was written.
            StoreError: It cannot be written down, so it cannot be told.
        """
        us = HubMember.named(self._cluster, hub)
        applied = await self._applied_works()
        record = await self._read()
        why = refusal(_recorded(record), applied, us)
        if why and not self._take_over:
            raise NotOursError(why)
        if why:
            _log.warning("taking over", extra={"cluster": self._cluster, "was": why})
        await self._write(record, us)
        for each in applied:
            await self._settle(each, us)
        self._take_over = False

    async def still_ours(self, hub: str) -> None:
        """Look whether another agent has taken the cluster over; a note that is gone, or says less, is written anew.

        Raises:
            NotOursError: It is another's.
            StoreError: The cluster does not say.
        """
        us, record = HubMember.named(self._cluster, hub), await self._read()
        recorded = _recorded(record)
        if recorded == us:
            return
        if why := refusal(recorded, (), us):
            raise NotOursError(why)
        await self._write(record, us)

    async def release(self, hub: str) -> None:
        """Let go of the cluster: what was placed stays, and whoever comes next may take it over.

        Raises:
            StoreError: The cluster did not answer, or did not keep it.
        """
        us, record = HubMember.named(self._cluster, hub), await self._read()
        recorded = _recorded(record)
        if recorded is not None and not us.may_be(recorded):
            return
        for each in await self._applied_works():
            if is_ours(each, us):
                await self._change(each, _freed)
        if record is not None:
            with suppress(NotFoundError):
                await self._member.replace(CONFIG_MAP, {**record, "data": {}})

    async def _settle(self, applied_work: JsonObject, us: HubMember) -> None:
        """Take up again what we had let go of; when taking over, have what is another's let go of."""
        if is_let_go(applied_work):
            if us.may_be(placed_by(applied_work)):
                await self._change(applied_work, lambda found: _held(found, us))
        elif self._take_over and standing(applied_work, us) is Standing.ANOTHERS:
            await self._change(applied_work, _freed)

    async def _change(self, applied_work: JsonObject, change: Callable[[JsonObject], JsonObject]) -> None:
        """Change an AppliedWork as it is now; one that is gone, or another one by now, is left alone."""
        name, uid = applied_work["metadata"]["name"], applied_work["metadata"]["uid"]

        async def write(found: JsonObject) -> None:
            if found["metadata"]["uid"] == uid:
                await self._member.replace(APPLIED_WORK, change(found))

        await on_latest(APPLIED_WORK, Key(name), self._member, write)

    async def _applied_works(self) -> tuple[JsonObject, ...]:
        """Return what is on the cluster; where they are not even defined, there are none."""
        try:
            return (await self._member.list(APPLIED_WORK)).items
        except NotFoundError:
            return ()

    async def _read(self) -> JsonObject | None:
        try:
            return await self._member.get(CONFIG_MAP, Key(RECORD, await self._home()))
        except NotFoundError:
            return None

    async def _write(self, record: JsonObject | None, us: HubMember) -> None:
        data = {"hub": us.hub, "member": us.cluster}
        if record is not None and record.get("data") == data:
            return
        try:
            if record is not None:
                await self._member.replace(CONFIG_MAP, {**record, "data": data})
                return
            metadata = {"name": RECORD, "namespace": await self._home()}
            document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            await self._member.create(CONFIG_MAP, document)
        except AlreadyExistsError as error:
            raise ConflictError(str(error)) from error
        except (ForbiddenError, NotFoundError) as error:
            what = "cannot write down whose this cluster is; `harbormaster rbac agent` prints what that takes"
            raise StoreError(f"{what}: {error}") from error


def _held(applied_work: JsonObject, us: HubMember) -> JsonObject:
    """Return an AppliedWork of an earlier stay as ours again: what it owns does not go with it by itself."""
    ours = taken_up(applied_work, us)
    return ours if is_deleting(ours) else with_finalizer(ours, APPLIED_WORK_CLEANUP) or ours


def _freed(applied_work: JsonObject) -> JsonObject:
    """Return an AppliedWork that we let go of: nobody keeps it from being deleted any more."""
    theirs = let_go(applied_work)
    return without_finalizer(theirs, APPLIED_WORK_CLEANUP) or theirs


def _recorded(record: JsonObject | None) -> HubMember | None:
    """Return whose the cluster is; a note that names nobody is none."""
    data = (record or {}).get("data") or {}
    return HubMember.named(str(data["member"]), str(data.get("hub") or "")) if data.get("member") else None
