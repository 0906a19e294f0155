"""Links between documents, and how long the first of them may be."""

import pytest

from tests.docs.pages import DOCS, DOCUMENTS, ROOT, anchor_of, broken_links, leads_somewhere, read_page

MOST_BYTES_OF_THE_README = 12_000


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    """Within the project: files, folders, pictures, and anchors in documents."""
    assert broken_links(path) == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_anchors_are_on_one_line(path):
    """The site does not find others."""
    assert [line for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("<a")] == []


def test_the_readme_is_no_longer_than_a_first_screen_and_five_minutes():
    assert len((ROOT / "README.md").read_bytes()) <= MOST_BYTES_OF_THE_README


def test_every_document_is_reached_from_the_readme():
    """By links from document to document; what is not linked is not read."""
    reached, left = set(), [ROOT / "README.md"]
    while left:
        path = left.pop()
        if path in reached:
            continue
        reached.add(path)
        targets = (link.partition("#")[0] for link in read_page(path).links if "://" not in link)
        left += [found for target in targets if (found := (path.parent / target).resolve()).suffix == ".md"]
    assert sorted(set(DOCS.rglob("*.md")) - reached) == []


@pytest.mark.parametrize(
    ("text", "anchor"),
    [
        pytest.param("Ask why", "ask-why", id="words"),
        pytest.param("Applied: ApplyFailed", "applied-applyfailed", id="colon"),
        pytest.param("`up`, and what it keeps", "up-and-what-it-keeps", id="code-and-comma"),
        pytest.param("What works / what not", "what-works--what-not", id="slash"),
        pytest.param("kube_api", "kube_api", id="underscore"),
    ],
)
def test_anchors_are_those_of_github(text, anchor):
    assert anchor_of(text) == anchor


def test_a_heading_that_comes_twice_has_two_anchors(tmp_path):
    page = tmp_path / "page.md"
    page.write_text('# One\n\n## Two\n\n## Two\n\n<a id="three"></a>\n', encoding="utf-8")
    assert read_page(page).anchors == {"one", "two", "two-1", "three"}


@pytest.mark.parametrize(
    ("link", "leads"),
    [
        pytest.param("concepts.md", True, id="document"),
        pytest.param("../examples/fleet", True, id="folder"),
        pytest.param("#concepts", True, id="anchor-here"),
        pytest.param("../README.md#harbormaster", True, id="anchor-there"),
        pytest.param("https://example.com/nowhere", True, id="elsewhere"),
        pytest.param("nowhere.md", False, id="no-document"),
        pytest.param("#nowhere", False, id="no-anchor-here"),
        pytest.param("../README.md#nowhere", False, id="no-anchor-there"),
        pytest.param("../Makefile#setup", False, id="anchor-in-what-has-none"),
        pytest.param("../../outside.md", False, id="outside"),
    ],
)
def test_what_leads_somewhere(link, leads):
    assert leads_somewhere(DOCS / "concepts.md", link) is leads
