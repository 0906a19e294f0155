"""Where something stands in a rendered object."""

from typing import Any

import yaml

from e2e.charts.rendering import Document, name_of


def found_at(documents: list[Document], target: str, place: str) -> Any:
    """Return what stands at a place of the object *target* (kind and name); None: there is no such thing.

    Args:
        documents: All objects.
        target: Kind and name, as ``Deployment/web``.
        place: Keys, numbers of entries, or their names, divided by dots, with ``~`` for the dots in keys. Text that has
            to be entered is read as YAML. Empty: the object itself.
    """
    here: Any = next((each for each in documents if name_of(each) == target), None)
    for word in place.split(".") if place else ():
        if here is None:
            return None
        here = _entered(yaml.safe_load(here) if isinstance(here, str) else here, word.replace("~", "."))
    return here


def _entered(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return value.get(key)
    if key.lstrip("-").isdigit():
        return value[int(key)] if -len(value) <= int(key) < len(value) else None
    return next((each for each in value if each["name"] == key), None)
