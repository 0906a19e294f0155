"""``python -m tests.webhook.page.axe``: fetch axe-core for the tests of the page, where it is missing."""

import sys

from tests.webhook.page.axe import NotInstalledError, script

try:
    script()
except NotInstalledError as error:
    sys.stderr.write(f"==> the tests of accessibility will fail: {error}\n")
