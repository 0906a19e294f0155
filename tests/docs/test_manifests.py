"""The manifests that documents show are ones that admission lets pass."""

import pytest
from click.testing import CliRunner

from tests.docs.pages import DOCUMENTS, ROOT, manifests_of
from webhook.cli.root import root

PAGES = [path for path in DOCUMENTS if "apiVersion: " in path.read_text(encoding="utf-8") and manifests_of(path)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_pages_show_is_admitted(path, tmp_path):
    for number, block in enumerate(manifests_of(path)):
        (tmp_path / f"{number}.yaml").write_text(block, encoding="utf-8")
    done = CliRunner().invoke(root, ["validate", "-f", str(tmp_path)])
    assert done.exit_code == 0, done.output


def test_the_pages_that_show_whole_manifests_are_found():
    assert {"docs/first-placement.md", "docs/teams.md"} <= {str(path.relative_to(ROOT)) for path in PAGES}
