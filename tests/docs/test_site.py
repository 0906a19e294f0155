"""The documents as a site: every page has its place in the sidebar, and building it finds nothing to complain of."""

import subprocess
import tomllib

import pytest

from tests.docs.pages import DOCUMENTS, ROOT, leads_somewhere, read_page
from tests.thoroughness import SOAK

NAVIGATION = tomllib.loads((ROOT / "docs" / "site" / "navigation.toml").read_text(encoding="utf-8"))
LISTED = [page for part in NAVIGATION["part"] for page in part["pages"]]


def test_every_document_has_one_place_in_the_sidebar():
    """The README is the first page."""
    assert sorted(["README.md", *LISTED]) == sorted(set(LISTED) | {str(path.relative_to(ROOT)) for path in DOCUMENTS})


def test_what_the_sidebar_names_is_there():
    assert [page for page in (*LISTED, *NAVIGATION["titles"]) if not (ROOT / page).exists()] == []


@pytest.mark.parametrize(
    ("page", "anchor", "target"),
    [(page, *move) for page, moves in NAVIGATION["moved"].items() for move in moves.items()],
)
def test_a_moved_anchor_redirects_to_its_new_place(page, anchor, target):
    assert leads_somewhere(ROOT / "README.md", target)
    assert anchor not in read_page(ROOT / page).anchors


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="takes an environment of its own, which make soak makes; so does make site")
def test_the_site_is_built_without_a_warning(tmp_path):
    """A warning is an error: a link that leads nowhere, an anchor that is not there, a page without a place."""
    build = [ROOT / ".venv/docs/bin/sphinx-build", "-q", "-W", "--keep-going", "-c", "docs/site"]
    done = subprocess.run(
        [*build, "-d", tmp_path / "doctrees", "-b", "html", ".", tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "site" / "docs" / "troubleshooting.html").exists()
    assert '"with-helm": "../docs/install.html#with-helm"' in (tmp_path / "site/docs/running-a-fleet.html").read_text()
