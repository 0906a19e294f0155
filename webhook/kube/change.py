"""A change of one object, as whoever follows its kind is told of it."""

from collections.abc import Callable
from typing import NamedTuple

from scorer.api.meta import JsonObject

View = Callable[[JsonObject], object]
"""What somebody looks at in an object."""


def desired(document: JsonObject) -> object:
    """View what people can want of an object: its spec, by the generation of it, and that it is to go."""
    metadata = document["metadata"]
    return metadata.get("generation"), metadata.get("deletionTimestamp")


class Change(NamedTuple):
    """An object before and after: at least one of both is there.

    Args:
        old: As it was; None: it was not there, or not known.
        new: As it is; None: it is gone.
    """

    old: JsonObject | None
    new: JsonObject | None

    @property
    def document(self) -> JsonObject:
        """The object as it is now, or as it was last when it is gone."""
        document = self.new if self.new is not None else self.old
        assert document is not None
        return document

    @property
    def came_or_went(self) -> bool:
        """Whether it is there and was not, or the other way round."""
        return self.old is None or self.new is None

    def alters(self, view: View) -> bool:
        """Say whether it was there, and is, and something else is seen of it than before."""
        return self.old is not None and self.new is not None and view(self.old) != view(self.new)

    def touches(self, view: View) -> bool:
        """Say whether something else is seen of it than before, or nothing at all before or now."""
        return self.old is None or self.new is None or view(self.old) != view(self.new)


Handler = Callable[[Change], None]
"""Is told of a change: quick, on the event loop."""
