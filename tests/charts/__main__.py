"""``python -m tests.charts``: write the files of the charts that are made from the code."""

import sys

from tests.charts.made import CHARTS, folders, made_files


def main() -> None:
    """Write the files, and remove what is not made any more."""
    written = set()
    for path, text in made_files():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {path.relative_to(CHARTS)}\n")
        written.add(path)
    for folder in folders():
        for path in set(folder.iterdir()) - written:
            path.unlink()
            sys.stdout.write(f"removed {path.relative_to(CHARTS)}\n")


if __name__ == "__main__":
    main()
