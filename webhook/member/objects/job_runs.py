"""Runs of Jobs with ``ttlSecondsAfterFinished``: the agent creates such a Job at most once per manifest.

The member's TTL controller deletes a Job that is complete or has failed. An agent that only compares would create it
again, and the migration in it would run after every clean-up. The AppliedWork therefore records, in an annotation, the
manifest before its Job is created, and the uid of the Job after that. A record without a uid means that the agent was
interrupted in between: the Job may or may not have run, and only a user can decide what follows.

Example: ``{"shop/migrate": ["5f0c2a91d3b7e846", "1f6d…"]}``. While the Work holds that manifest, the Job is not created
again. Records of Jobs that the Work no longer holds are kept while they fit: another Work of the placement may now hold
the Job, and finds the record there. Records of a Job's earlier manifests are kept as well, as ``shop/migrate <hash>``:
a rollback restores an earlier manifest.

Source: docs/specifications/rollout.md 11.9. The reference creates the Job again.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from scorer.api.conditions import TRUE
from scorer.api.kinds import APPLIED_WORK, KINDS
from scorer.api.meta import JsonObject, dump_json
from scorer.api.names import JOB_RUNS, RUN_AGAIN
from scorer.api.unstructured.documents import (
    annotation,
    conditions_of,
    dict_at,
    dicts_at,
    generation_of,
    spec_of,
    uid_of,
    with_metadata,
)
from scorer.membership.identity import HubMember, is_owned_by
from scorer.rollout.ownership.fields import without_member_fields
from webhook.kube.ports import StoreError, UnavailableError
from webhook.member.objects.manifests import Manifest, manifest_hash
from webhook.member.store.ports import MemberStore

LONGEST_RECORD: Final = 64 * 1024
"""Size limit of the annotation in bytes, a quarter of the limit for all annotations of an object."""
_HASH_LENGTH: Final = 16
_UNKNOWN_UID: Final = "unknown"
"""Recorded for a Job that an earlier release applied, if the AppliedWork does not list the Job's uid."""
_JOB: Final = KINDS["batch", "Job"]
_NEVER_CREATED: Final = ("failed calling webhook", "Cannot connect to host")
"""Texts of errors after which an API server has certainly not stored the object."""


@dataclass(frozen=True, slots=True)
class JobRun:
    """A Job that was created, or was about to be.

    Args:
        manifest: Hash of its manifest.
        uid: Uid of the Job. Empty if unknown, because the agent was interrupted while it created the Job.
        repeated: Whether a user requested this run with ``harbormaster.dev/run-again``.
    """

    manifest: str
    uid: str = ""
    repeated: bool = False


def runs_once(item: Manifest) -> bool:
    """Return whether an object is a Job that is deleted after it has finished."""
    return item.kind.group_kind == _JOB.group_kind and spec_of(item.document).get("ttlSecondsAfterFinished") is not None


def job_hash(document: JsonObject) -> str:
    """Return the hash of a Job's manifest, as a user names it in a request to run the Job again.

    That request is not part of the hash. Neither are generated selectors and labels that earlier releases sent.
    """
    job = with_metadata(without_member_fields(document, {}), annotations={RUN_AGAIN: None})
    spec = dict(spec_of(job))
    if spec.get("manualSelector") is not True:
        spec.pop("selector", None)
    template = dict(dict_at(spec, "template"))
    metadata = {name: value for name, value in dict_at(template, "metadata").items() if value}
    template.pop("metadata", None)
    spec["template"] = {**template, **({"metadata": metadata} if metadata else {})}
    return manifest_hash({**job, "spec": spec})[:_HASH_LENGTH]


def read_runs(applied_work: Mapping[str, Any]) -> dict[str, JobRun]:
    """Return the recorded runs by namespace and name of the Job, empty without a readable record."""
    try:
        entries = orjson.loads(annotation(applied_work, JOB_RUNS) or "{}")
        return {
            str(name): JobRun(str(manifest), str(uid), repeated=bool(flags))
            for name, (manifest, uid, *flags) in entries.items()
        }
    except (orjson.JSONDecodeError, AttributeError, TypeError, ValueError):
        return {}


class JobRuns:
    """The runs that one AppliedWork records, during one pass over its Work.

    Args:
        work: The Work.
        owner: AppliedWork.
        items: The manifests of the Work.
        member: Store of both AppliedWork and Jobs.
        us: The identity of this member.
    """

    def __init__(
        self, work: JsonObject, owner: JsonObject, items: Iterable[Manifest], member: MemberStore, us: HubMember
    ) -> None:
        self.owner = owner
        """The AppliedWork as last written."""
        self._work = work
        self._member = member
        self._us = us
        self._held = {str(item.key) for item in items if runs_once(item)}
        self._runs = read_runs(owner)
        self._before: dict[str, dict[str, JobRun]] = {}
        self._elsewhere: list[dict[str, JobRun]] | None = None
        self._is_new = not self._runs and annotation(owner, JOB_RUNS) != dump_json({}).decode()
        self._writing, self._reading = asyncio.Lock(), asyncio.Lock()

    async def past_run(self, item: Manifest) -> JobRun | None:
        """Return the run that forbids the creation of a missing Job. None if it may be created.

        Raises:
            StoreError: The member did not respond.
        """
        key, manifest = str(item.key), job_hash(item.document)
        run = _run_of(self._runs, key, manifest) or await self._moved(key, manifest)
        run = run or self._of_earlier_release(item, manifest)
        if run is None:
            return None
        is_requested = annotation(item.document, RUN_AGAIN) == manifest
        if is_requested and not run.repeated:
            return None
        run = replace(run, repeated=is_requested)
        self._note(key, run)
        return run

    def _note(self, key: str, run: JobRun) -> None:
        """Record the run of the current manifest. Keep the earlier run: a rollback must not run that Job again."""
        last = self._runs.get(key)
        if last is not None and last.manifest != run.manifest:
            self._runs[_earlier(key, last.manifest)] = last
        self._runs[key] = run
        self._runs.pop(_earlier(key, run.manifest), None)

    async def _moved(self, key: str, manifest: str) -> JobRun | None:
        """Return the run that another AppliedWork of the same hub records, None if none does."""
        async with self._reading:  # the Jobs of a wave are applied concurrently: list only once
            if self._elsewhere is None:
                applied_works = (await self._member.list(APPLIED_WORK)).items
                self._elsewhere = [read_runs(other) for other in applied_works if is_owned_by(other, self._us)]
        return next(filter(None, (_run_of(others, key, manifest) for others in self._elsewhere)), None)

    def _of_earlier_release(self, item: Manifest, manifest: str) -> JobRun | None:
        """Return the run of a Job that an earlier release applied according to the Work's status. None: not applied.

        If the Work has changed since then, the Job's manifest may have changed, too. The run then has no known UID.
        """
        if not self._is_new:
            return None
        identity = {name: text for name, text in item.identity._asdict().items() if text}
        entries = dicts_at(self._work, "status", "manifestConditions")
        entry = next((entry for entry in entries if identity.items() <= (entry.get("identifier") or {}).items()), {})
        if not _is_applied(entry.get("conditions") or ()):
            return None
        applied = [condition for condition in conditions_of(self._work) if condition.get("type") == "Applied"]
        if [condition.get("observedGeneration") for condition in applied] != [generation_of(self._work)]:
            return JobRun(manifest)
        resources = dicts_at(self.owner, "status", "appliedResources")
        uids = [str(resource.get("uid") or "") for resource in resources if identity.items() <= resource.items()]
        return JobRun(manifest, next(filter(None, uids), _UNKNOWN_UID))

    async def record_start(self, item: Manifest) -> str:
        """Record that a Job is about to be created, and return why it must not be, empty if it may.

        Raises:
            ConflictError: The AppliedWork has changed since it was read.
            StoreError: The member did not respond.
        """
        key, manifest = str(item.key), job_hash(item.document)
        is_requested = annotation(item.document, RUN_AGAIN) == manifest
        async with self._writing:
            self._before[key] = self._records_of(key)
            self._note(key, JobRun(manifest, repeated=is_requested))
            if (text := self._text()) is None:
                self._restore(key)
                return f"too many Jobs with ttlSecondsAfterFinished: their record exceeds {LONGEST_RECORD} bytes"
            await self._write(text)
        return ""

    async def record_failure(self, item: Manifest, error: StoreError) -> None:
        """Remove the record of a Job that was not created.

        If the API server may have created the Job nevertheless, the record remains and the run counts as unknown.

        Raises:
            ConflictError: The AppliedWork has changed since it was read.
            StoreError: The member did not respond.
        """
        key = str(item.key)
        if key not in self._before or (isinstance(error, UnavailableError) and not _is_refusal(error)):
            return
        async with self._writing:
            self._restore(key)
            if (text := self._text()) is not None:
                await self._write(text)

    def _records_of(self, key: str) -> dict[str, JobRun]:
        return {name: run for name, run in self._runs.items() if name.partition(" ")[0] == key}

    def _restore(self, key: str) -> None:
        for name in self._records_of(key):
            del self._runs[name]
        self._runs.update(self._before.pop(key))

    def record_job(self, item: Manifest, live: JsonObject) -> None:
        """Record a Job that exists and has the manifest."""
        key, manifest = str(item.key), job_hash(item.document)
        run = self._runs.get(key)
        is_repeated = run is not None and run.manifest == manifest and run.repeated
        self._note(key, JobRun(manifest, uid_of(live), repeated=is_repeated))

    async def store(self) -> JsonObject:
        """Write the runs if they have changed, and return the AppliedWork.

        Raises:
            ConflictError: The AppliedWork has changed since it was read.
            StoreError: The member did not respond.
        """
        text = self._text()
        if text is not None and self._held and text != annotation(self.owner, JOB_RUNS):
            await self._write(text)
        return self.owner

    async def _write(self, text: str) -> None:
        self.owner = await self._member.replace(APPLIED_WORK, with_metadata(self.owner, annotations={JOB_RUNS: text}))

    def _text(self) -> str | None:
        """Return the annotation, or None if the runs of the Jobs that the Work holds are too long for it."""
        obsolete_keys = [key for key in self._runs if key not in self._held]
        keys = sorted(key for key in self._runs if key in self._held)
        while True:
            entries = {key: _entry(self._runs[key]) for key in (*obsolete_keys, *keys)}
            text = dump_json(entries).decode()
            if len(text) <= LONGEST_RECORD:
                return text
            if not obsolete_keys:
                return None
            obsolete_keys = obsolete_keys[len(obsolete_keys) // 2 + 1 :] if len(obsolete_keys) > 1 else []


def _earlier(key: str, manifest: str) -> str:
    """Return the name of the record of an earlier manifest of a Job."""
    return f"{key} {manifest}"


def _run_of(runs: Mapping[str, JobRun], key: str, manifest: str) -> JobRun | None:
    """Return the recorded run of a current or earlier manifest of a Job, or None if no run is recorded."""
    records = (runs.get(name) for name in (key, _earlier(key, manifest)))
    return next((run for run in records if run is not None and run.manifest == manifest), None)


def _entry(run: JobRun) -> list[Any]:
    return [run.manifest, run.uid, *([True] if run.repeated else [])]


def _is_applied(conditions: Iterable[Mapping[str, Any]]) -> bool:
    return any(condition.get("type") == "Applied" and condition.get("status") == TRUE for condition in conditions)


def _is_refusal(error: StoreError) -> bool:
    return any(text in str(error) for text in _NEVER_CREATED)
