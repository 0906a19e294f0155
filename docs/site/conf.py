"""Build the documents as a site: ``make site``.

The documents remain plain Markdown with links between files, as a forge shows them. The site's additions (the
navigation, targets for anchors in HTML, redirects of moved anchors) are made while Sphinx reads them.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Final

from sphinx.application import Sphinx

ROOT: Final = Path(__file__).parents[2]

NAVIGATION: Final = tomllib.loads((ROOT / "docs" / "site" / "navigation.toml").read_text(encoding="utf-8"))

project = "harbormaster"
author = "The harbormaster authors"
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = ["myst_parser"]
root_doc = "README"
include_patterns = [
    "*.md",
    "docs/**.md",
    "charts/*/README.md",
    "examples/**/README.md",
    "e2e/kubelet/README.md",
    "*/README.md",
]
exclude_patterns = ["build", "tests", ".*"]
myst_heading_anchors = 6  # by the rule of the forges, as tests/docs has it
myst_enable_extensions = ["attrs_inline"]
highlight_language = "none"  # most blocks are calls with what they print

html_theme = "furo"
html_show_copyright = False  # the licence is in the repository
html_title = f"harbormaster {release}"
html_extra_path = ["extra"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False

_ANCHOR: Final = re.compile(r'<a id="([^"]+)"></a>')
_FOLDER: Final = re.compile(r"\]\((?!\w+://|#)([^)#\s]+)\)")
_REDIRECT: Final = """
```{raw} html
<script>
  const moved = %s;
  const follow = () => { const to = moved[location.hash.slice(1)]; if (to) location.replace(to); };
  addEventListener("hashchange", follow);
  follow();
</script>
```
"""


def adapt(_: Sphinx, name: str, source: list[str]) -> None:
    """Adapt the document *name* to Sphinx, and add the navigation to the first page."""
    folder = (ROOT / name).parent
    text = _ANCHOR.sub(r"[]{#\1}", source[0])
    text = _FOLDER.sub(lambda link: f"]({page_of(folder, link[1])})", text)
    if name == root_doc:
        text += "".join(table_of_contents(part["title"], part["pages"]) for part in NAVIGATION["part"])
    if moved := NAVIGATION["moved"].get(f"{name}.md"):
        text += redirects(folder, moved)
    source[0] = text


def table_of_contents(caption: str, pages: list[str]) -> str:
    """Return the directive that puts *pages* into the sidebar, under *caption*."""
    titles = NAVIGATION["titles"]
    entries = [f"{titles[page]} </{page}>" if page in titles else f"/{page}" for page in pages]
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *entries, "```", ""])


def redirects(folder: Path, moved: dict[str, str]) -> str:
    """Return a script for a page in *folder* that redirects the anchors which have moved to other pages."""
    up = "../" * len(folder.relative_to(ROOT).parts)
    return _REDIRECT % json.dumps({anchor: up + to.replace(".md", ".html") for anchor, to in moved.items()})


def page_of(folder: Path, link: str) -> str:
    """Return the page that a link from *folder* to a folder of the repository leads to: the nearest README above."""
    target = (folder / link).resolve()
    if not target.is_dir():
        return link
    for above in (target, *target.parents):
        if (above / "README.md").exists():
            return f"{Path(*['..'] * len(folder.relative_to(ROOT).parts), above.relative_to(ROOT), 'README.md')}"
    return link


def setup(app: Sphinx) -> None:
    """Adapt each document when Sphinx reads it."""
    app.connect("source-read", adapt)
