"""``python -m webhook.cli``."""

from webhook.cli import main

main()
