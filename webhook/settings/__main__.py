"""``python -m webhook.settings``: print the page that lists all settings."""

import sys

from webhook.settings.reference import page

if __name__ == "__main__":
    sys.stdout.write(page())
