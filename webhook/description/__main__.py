"""``python -m webhook.description``: regenerate ``webhook/openapi.json``."""

import sys
from pathlib import Path

from webhook.description.document import text

DESTINATION = Path(__file__).parent.parent / "openapi.json"


def main() -> None:
    """Write the document."""
    DESTINATION.write_text(text(), encoding="utf-8")
    sys.stdout.write(f"wrote {DESTINATION}\n")


if __name__ == "__main__":
    main()
