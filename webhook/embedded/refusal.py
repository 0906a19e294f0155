"""The error with which the embedded store refuses an object."""

from scorer.api.kinds import Kind
from scorer.api.quoting import quote
from webhook.kube.ports import InvalidObjectError
from webhook.validation.field import FieldError


class InvalidMetadataError(InvalidObjectError):
    """The store refuses the object; ``errors`` holds every reason."""

    def __init__(self, kind: Kind, name: str, errors: tuple[FieldError, ...]) -> None:
        super().__init__(f"{kind.kind} {quote(name)} is invalid: " + "; ".join(map(str, errors)))
        self.errors = errors
