"""Request bodies that only the aggregated API has. The others are those of ``/v1``.

Source: docs/specifications/serving.md 3.6.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Annotated

from pydantic import Field, field_validator

from scorer.api.kinds import Kind
from scorer.api.meta import parse_time
from scorer.api.values.quoting import quote
from webhook.endpoints.http.request_models import PlacementModel, RequestModel
from webhook.history.entry import EntryType
from webhook.history.query import MOST_ITEMS, USUAL_ITEMS, Query, parse_place, words_of

_Text = Annotated[str, Field(max_length=253)]


class PastDecisionsModel(RequestModel):
    """A placement whose last decisions are requested."""

    placement: PlacementModel


class HistoryModel(RequestModel):
    """A filter on the history of a namespace. An absent member matches every entry."""

    type: tuple[str, ...] = ()
    kind: _Text = ""
    name: _Text = ""
    reason: _Text = ""
    by: Annotated[str, Field(max_length=320)] = ""
    id: _Text = ""
    q: Annotated[str, Field(max_length=1024)] = ""
    since: Annotated[str, Field(max_length=64)] = ""
    before: Annotated[str, Field(max_length=64)] = ""
    continue_: Annotated[str, Field(alias="continue", max_length=512)] = ""
    limit: Annotated[int, Field(ge=1, le=MOST_ITEMS)] = USUAL_ITEMS

    @field_validator("type")
    @classmethod
    def _check_types(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        for word in words:
            if word not in set(EntryType):
                raise ValueError(f"{quote(word)}: must be one of {', '.join(EntryType)}")
        return words

    @field_validator("since", "before")
    @classmethod
    def _check_instant(cls, text: str) -> str:
        _instant(text)
        return text

    @field_validator("continue_")
    @classmethod
    def _check_token(cls, text: str) -> str:
        try:
            _place(text)
        except (ValueError, OverflowError):
            raise ValueError(f"{quote(text)}: not a token of this list. Start again without it") from None
        return text

    def query(self, namespace: str, readable: Collection[Kind]) -> Query:
        """Return the query for a caller who may list the kinds in *readable* in the namespace.

        Entries about other kinds, and about cluster-scoped objects, do not match: those about members and gates name
        the work of other teams.
        """
        return Query(
            types=frozenset(map(EntryType, self.type)),
            kind=self.kind,
            namespace=namespace,
            name=self.name,
            reason=self.reason,
            by=self.by,
            id=self.id,
            words=words_of(self.q),
            since=_instant(self.since),
            before=_instant(self.before),
            after=_place(self.continue_),
            limit=self.limit,
            in_namespaces=frozenset(kind.kind for kind in readable),
            cluster_scoped=frozenset(),
        )


def _instant(text: str) -> datetime | None:
    return parse_time(text) if text else None


def _place(token: str) -> tuple[datetime, str] | None:
    return parse_place(token) if token else None
