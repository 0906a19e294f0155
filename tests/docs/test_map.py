"""The map of the service: every room in its layer, and every house word where the glossary says it is at home."""

import re
import tomllib

import pytest

from tests.docs.pages import ROOT

MAP = ROOT / "webhook" / "README.md"


def glossary():
    """Return the words of the glossary with the files in which they are at home."""
    text = MAP.read_text(encoding="utf-8").partition("## Glossary\n")[2]
    rows = re.findall(r"^\| ([^|]+?) \|[^|]*\| \[[^]]*\]\(([^)]*)\) \|$", text, re.MULTILINE)
    return [pytest.param(word, ROOT / "webhook" / target, id=word) for word, target in rows]


@pytest.mark.parametrize(("word", "path"), glossary())
def test_house_words_are_at_home_where_the_glossary_says(word, path):
    """In the name of the module, or in what it says."""
    said = f"{path.stem}\n{path.read_text(encoding='utf-8')}"
    assert re.search(word.replace(" ", "[ _]"), said, re.IGNORECASE)


def test_the_glossary_has_its_words():
    """Some that it cannot do without; if none were found, the test above would see nothing."""
    words = {each.id for each in glossary()}
    assert {"family", "fingerprint", "hold", "impact", "opening", "outlook", "promise", "term", "wave"} <= words
    assert len(words) <= 20


def answers():
    """Return the names that the map says are in a file, with the file."""
    text = MAP.read_text(encoding="utf-8").partition("## Where is …?\n")[2].partition("\n## ")[0]
    rows = re.findall(r"`(\w+)` of \[[^]]*\]\(([^)]*)\)", text)
    return [pytest.param(name, MAP.parent / target, id=name) for name, target in rows]


@pytest.mark.parametrize(("name", "path"), answers())
def test_what_the_map_names_is_defined_where_it_says(name, path):
    assert re.search(rf"^(def|class) {name}\b|^{name}\b.* = ", path.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_map_names_something():
    assert {each.id for each in answers()} >= {"order_key", "round_half_away"}


def test_every_room_of_the_engine_is_on_its_map_and_among_its_layers():
    text = (ROOT / "scorer" / "README.md").read_text(encoding="utf-8")
    table, _, rest = text.partition("\nLayers, low to high:")
    layers = rest.partition("\n\n")[0]
    for path in (ROOT / "scorer").iterdir():
        name = path.stem
        if name.startswith("_") or path.suffix not in ("", ".py"):
            continue
        assert re.search(rf"^\|.*`{name}/?`.*\|.*\|$", table, re.MULTILINE), name
        assert f"`{name}`" in layers, name


def test_every_room_is_on_the_map():
    """In the order of the layers."""
    text = MAP.read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[`(\w+)/`\]", text, re.MULTILINE)
    rooms = {path.parent.name for path in (ROOT / "webhook").glob("*/__init__.py")}
    assert sorted(listed) == sorted(rooms)
    layers = layers_of_the_service()
    assert listed == sorted(listed, key=lambda room: next(at for at, layer in enumerate(layers) if room in layer))


def layers_of_the_service():
    """Return the layers of the import contract, from above to below."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    contract = next(each for each in contracts if each.get("containers") == ["webhook"])
    return [layer.split(" | ") for layer in contract["layers"]]
