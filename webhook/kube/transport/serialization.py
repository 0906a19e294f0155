"""Documents as JSON text, and the media types of patches."""

import json
from typing import Any, Final

import orjson

APPLY_PATCH: Final = "application/apply-patch+yaml"
JSON_PATCH: Final = "application/json-patch+json"
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
"""Media type of a list with only the metadata of its objects."""
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"


def encode(value: Any, *, sort: bool = False) -> bytes:
    """Encode *value* as JSON: in UTF-8, or in escaped ASCII if it has lone surrogates, which UTF-8 cannot represent."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort else 0)
    except orjson.JSONEncodeError:
        return json.dumps(value, ensure_ascii=True, sort_keys=sort, separators=(",", ":")).encode("ascii")
