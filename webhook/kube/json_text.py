"""Documents as JSON text: what API servers and our own answers send."""

import json
from typing import Any

import orjson


def encode(value: Any, *, sort: bool = False) -> bytes:
    """Write *value* as JSON; text with lone surrogates, which UTF-8 cannot carry, is escaped to ASCII."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort else 0)
    except orjson.JSONEncodeError:
        return json.dumps(value, ensure_ascii=True, sort_keys=sort, separators=(",", ":")).encode("ascii")
