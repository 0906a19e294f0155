"""What all generated pages are written with."""

from collections.abc import Iterable, Iterator, Sequence

HOW_TO_CHANGE = "<!-- Made from the code by `make docs`. -->"


def titled(title: str, introduction: str) -> str:
    """Return how a generated page begins."""
    return f"# {title}\n\n{HOW_TO_CHANGE}\n\n{introduction.strip()}\n"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield _row(headers)
    yield _row(["---"] * len(headers))
    yield from map(_row, rows)


def _row(cells: Sequence[str]) -> str:
    escaped = (cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def code(text: str) -> str:
    """Return *text* as code within a sentence."""
    return f"`{text}`" if text else ""


def plain(text: str) -> str:
    """Return *text* so that what it has in angle brackets is shown, not taken for HTML."""
    return text.replace("<", "&lt;")


def lines(*parts: str) -> str:
    """Return the text of a page."""
    return "\n".join(parts).rstrip("\n") + "\n"
