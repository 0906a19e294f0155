"""The tools of ``harbormaster mcp``: their arguments, and the command line that answers each call.

No tool has a command that writes, and no argument becomes an option of its own: values are passed as
``--option=VALUE``, or after ``--``. A path is read only if it is below the folder that the server may read.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from scorer.api.values.field_path import FieldPath
from webhook.cli.files.search import SUFFIXES, is_hidden
from webhook.validation.framework.field import FieldError, invalid

LONGEST_MANIFESTS: Final = 256 * 1024
"""Characters."""
MOST_ITEMS: Final = 100
STDIN: Final = "--filename=-"


def _one_line(text: str) -> str:
    """Return *text*. Raises `ValueError` if it has control characters: a NUL cannot be passed to a process."""
    if not text.isprintable():
        raise ValueError("must not contain control characters")
    return text


_Word = Annotated[str, Field(max_length=1024), AfterValidator(_one_line)]
_Words = Annotated[tuple[Annotated[_Word, Field(min_length=1)], ...], Field(max_length=MOST_ITEMS)]
_Count = Annotated[int, Field(ge=0, le=2**31 - 1)]


class CommandLine(NamedTuple):
    """A command line without the options that select the hub.

    Args:
        words: The command and its options.
        operands: Arguments that are not options.
        of_hub: Whether the running hub answers.
        text: Standard input.
    """

    words: Sequence[str]
    operands: Sequence[str] = ()
    of_hub: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class ReadableFolder:
    """The only folder that tools read.

    Args:
        path: The folder.
        render: Whether kustomizations and charts in it are rendered.
    """

    path: Path
    render: bool = False

    def errors(self, field: str, names: Sequence[str]) -> Iterator[FieldError]:
        """Yield an error for each name that is not a readable file or folder within this folder."""
        for position, name in enumerate(names):
            if reason := self._refusal(name):
                yield invalid(FieldPath((field, position)), name, reason)

    def options(self, option: str, names: Sequence[str]) -> list[str]:
        """Return an option for each of *names*, which have no errors."""
        return [f"--{option}={self.path / name}" for name in names]

    def _refusal(self, name: str) -> str:
        base = self.path.resolve()
        try:
            place = (base / name).resolve(strict=True)
        except (OSError, RuntimeError):
            place = None
        # One message for both, so that a caller cannot test which files exist elsewhere.
        if place is None or not place.is_relative_to(base):
            return f"must be an existing file or folder below {self.path}"
        if is_hidden(place, base):
            return "must not be a hidden file, nor in a hidden folder"
        if not (place.is_dir() or (place.is_file() and place.suffix in SUFFIXES)):
            return f"must be a folder, or a file that ends in {', '.join(SUFFIXES)}"
        return ""


def _without_titles(schema: Any) -> Any:
    """Return a schema without the titles that pydantic adds, which only repeat the names."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _without_titles(item) for name, item in value.items()}
        if key == "properties"
        else _without_titles(value)
        for key, value in schema.items()
        if key != "title"
    }


class Tool(BaseModel, ABC):
    """Arguments of one call. The docstring of a subclass is the description of its tool."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def schema_of_arguments(cls) -> dict[str, Any]:
        """Return the JSON Schema of the arguments."""
        schema: dict[str, Any] = _without_titles(cls.model_json_schema())
        schema.pop("description", None)
        return schema

    def path_errors(self, folder: ReadableFolder) -> Iterator[FieldError]:  # noqa: ARG002 - most tools read files
        """Yield an error for each path that must not be read."""
        yield from ()

    @abstractmethod
    def command(self, folder: ReadableFolder) -> CommandLine:
        """Return the command line that answers. The arguments have no errors."""


class FileTool(Tool):
    """Arguments of a tool that reads objects from files, from the call, or from both."""

    files: _Words = Field(
        default=(),
        description="Files (.yaml, .yml, .json) and folders with Kubernetes objects, relative to the folder that this "
        "server reads.",
    )
    manifests: str = Field(
        default="",
        max_length=LONGEST_MANIFESTS,
        description="Kubernetes objects as YAML or JSON documents, in addition to files. Use it for objects that are "
        "not in a file yet.",
    )

    @property
    def has_objects(self) -> bool:
        """Whether the call has objects."""
        return bool(self.files or self.manifests)

    def path_errors(self, folder: ReadableFolder) -> Iterator[FieldError]:
        """Yield an error for each path that must not be read."""
        yield from folder.errors("files", self.files)

    def object_options(self, folder: ReadableFolder) -> list[str]:
        """Return the options that name the objects of the call."""
        options = folder.options("filename", self.files) + ([STDIN] if self.manifests else [])
        return [*options, f"--within={folder.path}"]

    def file_options(self, folder: ReadableFolder) -> list[str]:
        """Return the options that name the objects of the call, for a command that renders."""
        return [*self.object_options(folder), "--render" if folder.render else "--no-render"]


class HubTool(FileTool):
    """Arguments of a tool that applies objects to a hub, without writing them."""

    hub: bool = Field(
        default=False,
        description="Use the running hub. The objects of the call are then proposed changes to it.",
    )
    on: _Words = Field(
        default=(),
        description="Files and folders that describe the hub, such as a dump. The objects of the call are then "
        "proposed changes to it.",
    )
    delete: _Words = Field(
        default=(),
        description="Objects of the hub that are assumed to be deleted: KIND/NAME or KIND/NAMESPACE/NAME, such as "
        "crp/payments. If set, objects in the call require hub or on.",
    )

    def path_errors(self, folder: ReadableFolder) -> Iterator[FieldError]:
        """Yield an error for each path that must not be read."""
        yield from super().path_errors(folder)
        yield from folder.errors("on", self.on)

    @property
    def of_hub(self) -> bool:
        """Whether the running hub answers."""
        return self.hub or not (self.has_objects or self.on)

    def hub_options(self, folder: ReadableFolder) -> list[str]:
        """Return the options that name the objects of the call, the deleted ones, and the hub."""
        options = [*self.file_options(folder), *folder.options("on", self.on), *_each("delete", self.delete)]
        return [*options, *(["--hub"] if self.of_hub else [])]


class ExplainTool(FileTool):
    """Explain why a placement got its clusters, and why it did not get others.

    Without files and manifests, the running hub answers. With them, they are the hub. The answer has, for each cluster,
    the first failed check with its numbers, the scores, and the change with which the cluster would pass.
    """

    placement: _Word = Field(description="The placement: crp/NAME or rp/NAMESPACE/NAME.")
    clusters: _Words = Field(default=(), description="Only these member clusters. Default: the whole fleet.")
    runs: bool = Field(
        default=False, description="Show the last decisions instead, and what changed between them. Running hub only."
    )

    def command(self, folder: ReadableFolder) -> CommandLine:
        """Return the command line that answers."""
        words = ["explain", *self.file_options(folder), *(["--runs"] if self.runs else [])]
        return CommandLine(words, (self.placement, *self.clusters), not self.has_objects, self.manifests)


class PlanTool(HubTool):
    """Preview what changes to placements, overrides, runs, members or budgets would do. Nothing is written.

    With files or manifests alone, they are both the hub and the changes. With hub or on, they are proposed changes to
    that hub. The plan lists the clusters that placements gain and lose, the steps of rollouts, blockers, refusals and
    warnings of admission, and the objects that are removed from clusters, with the digest that confirms a removal.
    """

    lost: _Words = Field(default=(), description="Member clusters that are assumed to be lost.")
    drained: _Words = Field(default=(), description="Member clusters that are assumed to be tainted and drained.")
    run: _Word = Field(default="", description="Only what this staged update run would do.")
    namespace: _Word = Field(
        default="",
        description="Namespace of the run, which is then a StagedUpdateRun, and of delete KIND/NAME.",
    )

    def command(self, folder: ReadableFolder) -> CommandLine:
        """Return the command line that answers."""
        words = ["plan", *self.hub_options(folder), *_each("lost", self.lost), *_each("drained", self.drained)]
        words += [*_one("run", self.run), *_one("namespace", self.namespace)]
        return CommandLine(words, (), self.of_hub, self.manifests)


class RenderTool(HubTool):
    """Show the final objects of placements on each cluster, with envelopes unwrapped and overrides applied.

    The hub and the changes are those of the tool plan. Values of Secrets are hidden.
    """

    clusters: _Words = Field(default=(), description="Only these member clusters.")
    placements: _Words = Field(default=(), description="Only these placements: crp/NAME or rp/NAMESPACE/NAME.")

    def command(self, folder: ReadableFolder) -> CommandLine:
        """Return the command line that answers."""
        words = ["render", *self.hub_options(folder)]
        words += [*_each("cluster", self.clusters), *_each("placement", self.placements)]
        return CommandLine(words, (), self.of_hub, self.manifests)


class LintTool(FileTool):
    """Find errors and questionable settings in files or manifests, with the rules of admission. Reads no hub.

    Each finding has file, line, column, rule and field. Findings about budgets have corrected budgets.
    """

    def command(self, folder: ReadableFolder) -> CommandLine:
        """Return the command line that answers."""
        return CommandLine(["lint", *self.file_options(folder)], (), text=self.manifests)


class GateTool(FileTool):
    """Check whether a disruption is allowed now, and if not, when. Nothing is reserved: the answer is only advice.

    The gate disruption is about nodes of a NodePool, rollout about changing a placement on a cluster, cluster-update
    about upgrading a cluster. Only disruption can be answered from files and manifests.
    """

    gate: Literal["disruption", "rollout", "cluster-update"] = Field(description="The kind of disruption.")
    pool: _Word = Field(default="", description="disruption: the NodePool.")
    reason: Literal["", "Underutilized", "Empty", "Drifted", "Unhealthy", "Expired"] = Field(
        default="", description="disruption: the reason, required."
    )
    nodes: _Words = Field(default=(), description="disruption: the nodes. Give either nodes or count.")
    count: _Count | None = Field(default=None, description="disruption: the number of nodes, if the gate chooses them.")
    total: _Count | None = Field(default=None, description="disruption, from files: the number of nodes of the pool.")
    placement: _Word = Field(default="", description="rollout: the placement, crp/NAME or rp/NAMESPACE/NAME.")
    cluster: _Word = Field(default="", description="rollout and cluster-update: the member cluster.")
    run: _Word = Field(default="", description="cluster-update: the ClusterUpgradeRun. Default: the oldest unfinished.")

    def command(self, folder: ReadableFolder) -> CommandLine:
        """Return the command line that answers."""
        words = ["gate", self.gate]
        if self.gate != "disruption":
            placement = (self.placement,) if self.gate == "rollout" else ()
            return CommandLine([*words, *_one("run", self.run)], (*placement, self.cluster), of_hub=True)
        words += [*_one("reason", self.reason), *_one("count", self.count), *_one("total", self.total)]
        words += self.file_options(folder)
        return CommandLine(words, (self.pool, *self.nodes), not self.has_objects, self.manifests)


class DrainTool(FileTool):
    """Show where a drain of nodes would move their pods, and what blocks it. Nothing is drained.

    Without files and manifests, the cluster that this server was started for answers. The nodes of a member are in a
    dump of the member.
    """

    nodes: Annotated[_Words, Field(min_length=1)] = Field(description="The nodes, which are drained together.")

    def command(self, folder: ReadableFolder) -> CommandLine:
        """Return the command line that answers."""
        words = ["gate", "drain", *self.object_options(folder)]
        return CommandLine(words, self.nodes, not self.has_objects, self.manifests)


class BudgetsTool(FileTool):
    """Show how many nodes may be disrupted under the budgets of NodePools, by reason: now, or on a calendar.

    Without files and manifests, the running hub answers.
    """

    pools: _Words = Field(default=(), description="Only these NodePools.")
    days: Annotated[int, Field(ge=1, le=400)] | None = Field(
        default=None, description="Show a calendar of this many days instead."
    )
    total: _Count | None = Field(default=None, description="From files: the number of nodes per pool.")

    def command(self, folder: ReadableFolder) -> CommandLine:
        """Return the command line that answers."""
        words = ["budgets", "calendar" if self.days else "list", *self.file_options(folder)]
        words += [*_one("days", self.days), *_one("total", self.total)]
        return CommandLine(words, self.pools, not self.has_objects, self.manifests)


class HistoryTool(Tool):
    """Show past decisions, rollouts, user actions, refusals and warnings of the running hub, latest first."""

    about: _Word = Field(
        default="", description="Only this kind or object, such as crp/NAME, rp/NAME or nodepool/NAME."
    )
    types: Annotated[
        tuple[Literal["Decision", "Rollout", "Action", "Refusal", "Warning", "Gate", "Event"], ...], Field(max_length=7)
    ] = Field(default=(), description="Only entries of these types.")
    reason: _Word = Field(default="", description="Only entries with this reason or admission rule, such as C-02.")
    by: _Word = Field(default="", description="Only entries caused by this user.")
    since: _Word = Field(default="", description="Only entries newer than this, such as 24h or 30m.")
    limit: Annotated[int, Field(ge=1, le=1000)] | None = Field(default=None, description="Maximum number of entries.")
    namespace: _Word = Field(default="", description="Namespace of the object.")

    def command(self, folder: ReadableFolder) -> CommandLine:  # noqa: ARG002 - reads no files
        """Return the command line that answers."""
        words = ["history", *_each("type", self.types), *_one("reason", self.reason), *_one("by", self.by)]
        words += [*_one("since", self.since), *_one("limit", self.limit), *_one("namespace", self.namespace)]
        return CommandLine(words, (self.about,) if self.about else (), of_hub=True)


TOOLS: Final[dict[str, type[Tool]]] = {
    tool.__name__.removesuffix("Tool").lower(): tool
    for tool in (ExplainTool, PlanTool, RenderTool, LintTool, GateTool, DrainTool, BudgetsTool, HistoryTool)
}
"""The tools by name, each that of its command. drain is a command of gate."""


def _one(option: str, value: str | int | None) -> list[str]:
    return [] if value is None or value == "" else [f"--{option}={value}"]


def _each(option: str, values: Sequence[str]) -> list[str]:
    return [f"--{option}={value}" for value in values]
