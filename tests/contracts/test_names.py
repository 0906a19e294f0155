"""A public class name stands for one class, so that a search for it finds that class."""

import ast
from collections import defaultdict
from collections.abc import Iterator

from tests.contracts.sources import PACKAGES, sources, statements


def public_classes(source: str) -> Iterator[str]:
    for node in statements(source):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def repeated(modules: dict[str, str]) -> list[str]:
    homes = defaultdict(list)
    for path, source in modules.items():
        for name in public_classes(source):
            homes[name].append(path)
    return [
        f"class {name} is defined in {' and '.join(paths)}: say in the name of one what it is about, or merge them"
        for name, paths in sorted(homes.items())
        if len(paths) > 1
    ]


def test_a_public_class_name_is_defined_once():
    found = repeated(dict(sources(*PACKAGES)))
    assert not found, "\n".join(found)


def test_a_second_class_of_a_name_is_reported_with_both_modules():
    source = "class Verdict: ...\nclass _Private: ...\n"
    (message,) = repeated({"scorer/a.py": source, "webhook/b.py": source})
    assert message.startswith("class Verdict is defined in scorer/a.py and webhook/b.py: ")
