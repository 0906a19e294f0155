"""Values that are either a number or a percentage: ``3`` or ``"25%"``."""

import re
from typing import Annotated, Any, TypeAlias

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

LARGEST = 2**31 - 1
"""The largest integer: one larger value makes a typed (Go) client fail to decode a whole list."""

PERCENTS = "^(100|[0-9]{1,2})%$"
"""The pattern of percentages in a schema."""
PERCENT = re.compile(r"([0-9]{1,2}|100)%", re.ASCII)


class _IntOrString:
    """Accepts a JSON integer or a JSON string, nothing else. Each field has its own rule for the string."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(_int_or_string)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}


def _int_or_string(value: object) -> int | str:
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise PydanticCustomError("int_or_string_type", "must be an integer or a string")


IntOrString: TypeAlias = Annotated[int | str, _IntOrString]


def count_or_percent(value: int | str) -> bool:
    """Return whether *value* is an integer from 0 to `LARGEST`, or a percentage of 0% to 100%."""
    return 0 <= value <= LARGEST if isinstance(value, int) else percent(value) is not None


def percent(value: int | str) -> int | None:
    """Return the number before the percent sign, or None if *value* is not a percentage of 0% to 100%."""
    match = PERCENT.fullmatch(value) if isinstance(value, str) else None
    return int(match[1]) if match else None


def scaled_up(value: int | str, total: int) -> int:
    """Return *value*, or for a percentage its share of *total*, rounded up.

    Example: ``25%`` of 5 clusters is 2. Rounding down would give 1, and ``25%`` of 3 clusters would allow nothing.

    Raises:
        ValueError: A string that is not a percentage.
    """
    return value if isinstance(value, int) else -(-total * _share(value) // 100)


def scaled_down(value: int | str, total: int) -> int:
    """Return *value*, or for a percentage its share of *total*, rounded down to at least 1.

    Raises:
        ValueError: A string that is not a percentage.
    """
    return value if isinstance(value, int) else max(1, total * _share(value) // 100)


def _share(value: str) -> int:
    share = percent(value)
    if share is None:
        raise ValueError(f"{value!r} is neither an integer nor a percentage")
    return share
