"""The price file: node prices per hour by SKU, reread when it changes.

::

    updatedAt: 2026-03-01T00:00:00Z     # optional; older than a day: the cost is marked as degraded
    prices:                             # USD per hour, in every region
      Standard_D4s_v5: 0.192
    regions:                            # optional: other prices in these regions
      westeurope:
        Standard_D4s_v5: 0.23

Source: scheduling.md 18.
"""

import asyncio
import logging
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import yaml

from scorer.api.meta import parse_time
from webhook.runtime.files import read_bounded

_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_FIELDS: Final = ("updatedAt", "prices", "regions")
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_log = logging.getLogger(__name__)


class PriceError(Exception):
    """A price list cannot be used; the message names file, line, field and value."""


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices in USD per hour.

    Args:
        prices: By SKU, for every region.
        regions: By region, then by SKU; they take precedence over *prices*.
        updated_at: When the prices were current; None: they do not age.
    """

    prices: Mapping[str, float] = field(default_factory=dict)
    regions: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    updated_at: datetime | None = None

    def of(self, region: str) -> dict[str, float]:
        """Return the prices in *region*."""
        return {**self.prices, **self.regions.get(region, {})}


def parse_prices(text: str, name: str) -> PriceList:
    """Read a price list in YAML or JSON.

    Args:
        text: The content of the file.
        name: Names the file in messages.

    Raises:
        PriceError: It is not a valid price list; the message names the first mistake.
    """
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise PriceError(f"{name}: line {line}: {error.problem or 'is not YAML'}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise PriceError(f"{name}: {' '.join(str(error).split())[:200]}") from error
    if root is None:
        raise PriceError(f"{name}: is empty; it must have prices, SKU to USD per hour")
    return _Reading(name).price_list(root)


class _Reading:
    """Reads the YAML nodes of one file, which know their line numbers."""

    def __init__(self, name: str) -> None:
        self._name = name

    def price_list(self, root: yaml.Node) -> PriceList:
        prices: dict[str, float] = {}
        regions: dict[str, dict[str, float]] = {}
        updated_at = None
        visited = set()
        for key, value in self._members(root, ""):
            visited.add(key.value)
            match key.value:
                case "updatedAt":
                    updated_at = self._time(value)
                case "prices":
                    prices = self._prices(value, "prices")
                case "regions":
                    regions = {
                        region.value: self._prices(listed, f"regions.{region.value}")
                        for region, listed in self._members(value, "regions")
                    }
                case _:
                    raise self._error(key, key.value, f"there is no such field; known are {', '.join(_FIELDS)}")
        if not visited & {"prices", "regions"}:
            raise self._error(root, "prices", "is missing: SKU to USD per hour")
        return PriceList(prices, regions, updated_at)

    def _prices(self, node: yaml.Node, at: str) -> dict[str, float]:
        return {sku.value: self._price(value, f"{at}.{sku.value}") for sku, value in self._members(node, at)}

    def _price(self, node: yaml.Node, at: str) -> float:
        plain = isinstance(node, yaml.ScalarNode) and not node.style and _NUMBER.fullmatch(node.value)
        price = float(node.value) if plain else -1.0
        if not plain or price < 0 or not math.isfinite(price):
            raise self._error(node, at, f"{_shown(node)} must be a number of USD per hour, 0 or more")
        return price

    def _time(self, node: yaml.Node) -> datetime:
        try:
            return parse_time(node.value if isinstance(node, yaml.ScalarNode) else "")
        except ValueError as error:
            message = f"{_shown(node)} must be an instant like 2026-03-01T00:00:00Z"
            raise self._error(node, "updatedAt", message) from error

    def _members(self, node: yaml.Node, at: str) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
        """Yield the keys and values of an object; null counts as an empty one."""
        if isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null":
            return
        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, at, f"{_shown(node)} must be an object")
        visited = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or not key.value:
                raise self._error(key, at, "its keys must be texts")
            if key.value in visited:
                raise self._error(key, f"{at}.{key.value}".lstrip("."), "is there twice")
            visited.add(key.value)
            yield key, value

    def _error(self, node: yaml.Node, at: str, message: str) -> PriceError:
        line = node.start_mark.line + 1
        return PriceError(f"{self._name}: line {line}: {at + ': ' if at else ''}{message}")


def _shown(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return repr(node.value[:64])
    return "a list" if isinstance(node, yaml.SequenceNode) else "an object"


class PriceFile:
    """The price list in a file as it is now, or the last valid one while the file is invalid.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark: tuple[int, ...] = ()
        self._prices = PriceList()
        self.problem = ""
        """Why the present content of the file is not used; empty when it is."""

    async def open(self) -> None:
        """Read the file for the first time. Raises `PriceError`."""
        await asyncio.to_thread(self._read)

    async def current(self) -> PriceList:
        """Return the prices; the same object as before while the file has not changed."""
        try:
            await asyncio.to_thread(self._read)
        except PriceError as error:
            if str(error) != self.problem:
                _log.warning("cannot use the price list, keeping the last one", extra={"error": str(error)})
            self.problem = str(error)
        else:
            self.problem = ""
        return self._prices

    def _read(self) -> None:
        try:
            stat = self._path.stat()
            mark = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if mark == self._mark and not self.problem:
                return
            text = read_bounded(self._path).decode()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
            raise PriceError(f"{self._path}: {reason}") from error
        self._prices = parse_prices(text, str(self._path))
        self._mark = mark  # taken before the text was read: a file replaced in between is read again next time
