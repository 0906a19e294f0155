"""``python -m tests.docs``: write what is made from the code: pages, terms of the page, links of words."""

import sys

from tests.docs.anchored import FILE, explained_json
from tests.docs.man import FOLDER, manual_pages
from tests.docs.pages import REFERENCE, ROOT
from tests.docs.reference import PAGES, terms_of_page


def main() -> None:
    """Write the pages."""
    for name, make in PAGES.items():
        path = REFERENCE / name
        path.write_text(make(), encoding="utf-8")
        sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")
    terms_of_page.FILE.write_text(terms_of_page.page(), encoding="utf-8")
    sys.stdout.write(f"wrote {terms_of_page.FILE.relative_to(ROOT)}\n")
    FILE.write_text(explained_json(), encoding="utf-8")
    sys.stdout.write(f"wrote {FILE.relative_to(ROOT)}\n")
    for path in FOLDER.glob("*.1"):
        path.unlink()
    for name, text in manual_pages():
        (FOLDER / name).write_text(text, encoding="utf-8")
    sys.stdout.write(f"wrote {FOLDER.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
