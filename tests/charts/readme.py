"""The README of a chart: what its author wrote above the values, and a table of all of them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.charts.values import Value


def readme_page(chart: Path, values: Iterable[Value]) -> str:
    """Return the README: ``README.head.md``, then every value with its default and what it means."""
    text = (chart / "README.head.md").read_text(encoding="utf-8")
    text += "\n## Values\n\n<!-- Made from values.yaml by `make charts`; a test compares. -->\n\n"
    text += "| value | default | meaning |\n| --- | --- | --- |\n"
    for value in values:
        text += f"| `{value.name}` | {_default(value.default)} | {_cell(value.description)} |\n"
    return text


def _default(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return f"`{_cell(text)}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
