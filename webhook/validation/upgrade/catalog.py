"""Rules on ClusterVersionCatalog.

Source: docs/specifications/upgrade-runs.md 3.6.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.upgrade.version_catalog import RELEASE_NOTES_PATTERN, CatalogRegion, ClusterVersionCatalog
from scorer.api.values.field_path import FieldPath
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import SPEC, FieldError, duplicate, invalid
from webhook.validation.framework.reading import Finding, read_object
from webhook.validation.framework.rule import OURS, deny, enforces, schema, shape_rules
from webhook.validation.upgrade.shape import VERSIONS, WRITTEN_BY_USERS, validate_about, validate_version

RULES: Final = (
    *WRITTEN_BY_USERS,
    VERSIONS,
    deny("C-54", "A catalog must list every region, version, family and image once.", OURS),
    schema("C-57", "releaseNotesURL must be the URL of a web page.", OURS, "spec.releaseNotesURL"),
)
SHAPE_RULES: Final = shape_rules(RULES)
REGIONS: Final = SPEC / "regions"
_RELEASE_NOTES: Final = re.compile(RELEASE_NOTES_PATTERN, re.ASCII)


@enforces(*RULES)
def validate(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield the errors and warnings of a catalog."""
    reading = read_object(ClusterVersionCatalog, document, SHAPE_RULES)
    yield from reading.errors
    if reading.view is not None:
        before = read_object(ClusterVersionCatalog, old).view if old is not None else None
        yield from reading.trusted(_judge(reading.view, before, context))


def _judge(new: ClusterVersionCatalog, old: ClusterVersionCatalog | None, context: Context) -> Iterator[Finding]:
    yield from validate_about(new.metadata, old.metadata if old else None, context)
    if not _RELEASE_NOTES.fullmatch(new.spec.release_notes_url):
        reason = "must be a URL that starts with https:// or http://"
        yield invalid(SPEC / "releaseNotesURL", new.spec.release_notes_url, reason, "C-57")
    yield from _once((region.name for region in new.spec.regions), REGIONS, "name")
    for i, region in enumerate(new.spec.regions):
        yield from _validate_region(region, REGIONS / i)


def _validate_region(region: CatalogRegion, at: FieldPath) -> Iterator[FieldError]:
    versions, families = region.kubernetes_versions or (), region.node_images or ()
    yield from _once((version.version for version in versions), at / "kubernetesVersions", "version")
    for i, version in enumerate(versions):
        yield from validate_version(version.version, at / "kubernetesVersions" / i / "version")
    yield from _once((each.family for each in families), at / "nodeImages", "family")
    for i, family in enumerate(families):
        yield from _once(
            (version.version for version in family.versions), at / "nodeImages" / i / "versions", "version"
        )


def _once(keys: Iterable[str], at: FieldPath, field: str) -> Iterator[FieldError]:
    """No two entries of a list have the same merge key (C-54)."""
    visited: set[str] = set()
    for i, key in enumerate(keys):
        if key in visited:
            yield duplicate(at / i / field, key, rule="C-54")
        visited.add(key)
