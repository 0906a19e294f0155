"""Rendering of our kustomizations and charts in a repository, so that objects are validated as they are applied."""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from scorer.api.kinds import group_kind
from scorer.api.unstructured.documents import name_of
from webhook.cli.files.foreign import mentions_ours
from webhook.cli.files.kustomizations import Kustomization, Kustomizations
from webhook.cli.files.parsing import DocumentSource, SourceDocument
from webhook.cli.files.rendering import HELM, KUSTOMIZE, Renderer, RenderingError, chart_concerns_us, text_of
from webhook.cli.files.search import Search, is_hidden

_LONGEST_LIST: Final = 20


@dataclass(slots=True)
class Rendering:
    """The rendered objects of a repository.

    Args:
        search: The search that has read the files.
        kustomizations: The kustomizations among the files.
        written: The objects of all files.
        found: The rendered objects.
        replaced: The files whose objects the rendered objects replace.
    """

    search: Search
    kustomizations: Kustomizations
    written: Sequence[SourceDocument]
    found: list[SourceDocument] = field(default_factory=list)
    replaced: set[str] = field(default_factory=set)
    _used: dict[str, list[str]] = field(default_factory=dict)
    _failures: list[str] = field(default_factory=list)

    def render_kustomizations(self, ours: Collection[str]) -> None:
        """Render each kustomization that includes one of the files *ours*, or another file with our kinds.

        A kustomization that refers to remote resources, or cannot be rendered for another reason, is noted. One that
        the user names as a single file, or that has confidential files, is skipped.
        """
        renderer = Renderer.find(KUSTOMIZE)
        single = {os.path.normpath(path) for path in (*self.search.files.paths, *self.search.files.searched)}
        for root in self.kustomizations.roots():
            if root.file in single:
                continue
            parts, files = self.kustomizations.everything_of(root)
            if any(map(self.search.is_confidential, (root.file, *files))):
                continue
            if files.isdisjoint(ours) and not any(mentions_ours(text_of(Path(file))) for file in files):
                continue
            if renderer is None:
                self._failures.append(f"{root.folder}: not rendered: neither kustomize nor kubectl is on the PATH")
            elif any(part.has_addresses for part in parts):
                self._failures.append(f"{root.folder}: not rendered: it refers to remote resources")
            elif reason := self._confinement((*(part.folder for part in parts), *files)):
                self._failures.append(f"{root.folder}: not rendered: {reason}")
            elif unread := sorted(file for file in files if Path(file).is_dir()):
                self._failures.append(f"{root.folder}: not rendered: {unread[0]} was not read")
            else:
                self._render_kustomization(renderer, root, files)

    def _render_kustomization(self, renderer: Renderer, root: Kustomization, files: frozenset[str]) -> None:
        try:
            objects = renderer.documents(root.folder, root.file)
        except RenderingError as error:
            self._failures.append(f"{root.folder}: not rendered: {error}")
            return
        objects_of = files - self.kustomizations.patches()
        sources = [entry for entry in self.written if os.path.normpath(entry.source.file) in objects_of]
        self.found += (replace(entry, source=_with_origin(entry, sources)) for entry in objects)
        self.replaced |= files
        self._used.setdefault(renderer.name, []).append(root.folder)

    def render_charts(self) -> None:
        """Render each searched chart that has a template with one of our objects, if helm is installed."""
        renderer = Renderer.find(HELM)
        for templates in sorted(self.search.templates):
            chart = Path(templates).parent
            if renderer is None or not self._is_searched(chart) or not chart_concerns_us(chart):
                continue
            try:
                self.found += renderer.documents(str(chart), str(chart / "Chart.yaml"))
            except RenderingError as error:
                self._failures.append(f"{chart}: not rendered: {error}")
                continue
            self.search.rendered.add(templates)
            self._used.setdefault(renderer.name, []).append(str(chart))

    @property
    def failure_count(self) -> int:
        """The number of kustomizations and charts of ours that could not be rendered."""
        return len(self._failures)

    def _confinement(self, paths: Iterable[str]) -> str:
        """Return the first of *paths* that must not be read, with the reason. Empty: all may be read."""
        if not (within := self.search.files.within):
            return ""
        boundary = Path(within)
        for path in sorted(paths):
            if not Path(path).resolve().is_relative_to(boundary.resolve()):
                return f"{path} is outside of {within}"
            if is_hidden(Path(path), boundary):
                return f"{path} is hidden"
        return ""

    def _is_searched(self, chart: Path) -> bool:
        """Return whether the chart is in a folder that was searched, and is not confidential."""
        searched = (Path(path) for path in (*self.search.files.paths, *self.search.files.searched))
        inside = any(chart.is_relative_to(path) and path.is_dir() for path in searched)
        return inside and not self.search.is_confidential(str(chart))

    def notes(self) -> Iterator[str]:
        """Yield notes on the rendered folders with their programs, and on the folders that were not rendered."""
        for program, folders in self._used.items():
            more = f" and {len(folders) - _LONGEST_LIST} more" if len(folders) > _LONGEST_LIST else ""
            yield f"rendered by `{program}`: {', '.join(folders[:_LONGEST_LIST])}{more}"
        yield from self._failures[:_LONGEST_LIST]
        if len(self._failures) > _LONGEST_LIST:
            yield f"{len(self._failures) - _LONGEST_LIST} more not rendered"


def _with_origin(rendered_document: SourceDocument, originals: Sequence[SourceDocument]) -> DocumentSource:
    """Return the source of a rendered object, with its origin if only one document is possible."""
    words = rendered_document.document.get("apiVersion"), rendered_document.document.get("kind")
    if not all(isinstance(word, str) for word in words):
        return rendered_document.source
    name = name_of(rendered_document.document)
    origins = [
        original.source
        for original in originals
        if _is_alike(original, rendered_document) and name_of(original.document) in name
    ]
    return replace(rendered_document.source, origin=origins[0] if len(origins) == 1 else None)


def _is_alike(original: SourceDocument, other: SourceDocument) -> bool:
    words = original.document.get("apiVersion"), original.document.get("kind")
    return all(isinstance(word, str) for word in words) and group_kind(original.document) == group_kind(other.document)
