"""Whether our webhook configurations still make the API server call us, and refuse writes if no webhook responds.

A client may delete a configuration, or set ``failurePolicy: Ignore`` where the hooks fail closed. No request fails
then, but invalid objects are admitted. Replicas watch the configurations anyway
(`webhook.kube.webhook_configurations.called_paths`), and report both cases.

A replica that starts after the deletion has never seen the missing configuration. Therefore a setting declares that
configurations are expected. Otherwise, only a configuration that was seen before is reported as missing.

Source: docs/specifications/serving.md 1.3.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from scorer.api.event import Event
from scorer.api.kinds import KINDS
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dicts_at, text_at
from scorer.api.values.quoting import format_count
from webhook.kube.webhook_configurations.ca_bundles import CONFIGURATIONS, Registered

INSTALLING_SECONDS: Final = 30.0
"""Grace period for a missing configuration after a start: Helm writes it after the Deployment."""
_MOST_NAMED: Final = 3

ADVICE: Final = "run `helm upgrade`, or `harbormaster webhook-configuration | kubectl apply --server-side -f -`"


class EnforcementMonitor:
    """Reports a configuration that does not enforce, and its recovery.

    Args:
        name: Name of both configurations.
        closed_webhooks: Names of the hooks that must fail closed, by kind of configuration.
        record: Records Events.
        expected: Whether both are expected to exist.
        close: Makes hooks of a configuration fail closed again. Raises `StoreError`. None: disabled.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self,
        name: str,
        closed_webhooks: Mapping[str, frozenset[str]],
        record: Callable[[JsonObject, Event], object],
        *,
        expected: bool,
        close: Callable[[str, Registered, Iterable[str]], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._closed = closed_webhooks
        self._record = record
        self._close = close
        self._clock = clock
        self._started = clock()
        self._expected = {kind.kind for kind in CONFIGURATIONS} if expected else set[str]()
        self._configurations: set[str] = set()
        self._problems: dict[str, Event | None] = {}  # by kind, None if the configuration enforces

    async def note(self, configurations: Mapping[str, Registered]) -> None:
        """Compare the configurations with the expected state, record changes, and repair them if enabled.

        Args:
            configurations: Existing configurations, by kind.

        Raises:
            webhook.kube.ports.StoreError: The hub refused a repair, or did not respond.
        """
        self._report(configurations)
        if self._close is not None:
            for kind, configuration in configurations.items():
                if fail_open := self._fail_open(kind, configuration):
                    await self._close(kind, configuration, fail_open)

    def _report(self, configurations: Mapping[str, Registered]) -> None:
        self._configurations |= configurations.keys()
        self._expected |= self._configurations
        for kind in sorted(self._expected):
            if kind not in self._configurations and self._clock() - self._started < INSTALLING_SECONDS:
                continue
            before, problem = self._problems.get(kind), self._problem(kind, configurations.get(kind))
            self._problems[kind] = problem
            if problem is not None and problem != before:
                self._tell(kind, problem)
            elif before is not None and problem is None:
                self._tell(kind, Event("WebhooksEnforced", f"{kind} {self._name} is correct again"))

    def enforced(self) -> dict[str, bool]:
        """Return whether each expected configuration enforces as intended, by kind, as of the last `note`.

        A configuration that was not checked yet has no entry.
        """
        return {kind: problem is None for kind, problem in self._problems.items()}

    def _fail_open(self, kind: str, configuration: Registered) -> list[str]:
        hooks = dicts_at(configuration.document, "webhooks")
        names = (text_at(hook, "name") for hook in hooks if text_at(hook, "failurePolicy") == "Ignore")
        return sorted(self._closed.get(kind, frozenset()).intersection(names))

    def _problem(self, kind: str, configuration: Registered | None) -> Event | None:
        if configuration is None or not dicts_at(configuration.document, "webhooks"):
            subject = "does not exist" if configuration is None else "has no hooks"
            note = f"{kind} {self._name} {subject}: the API server calls none of its webhooks. To restore it, {ADVICE}"
            return Event("WebhookConfigurationMissing", note, "Warning")
        fail_open = self._fail_open(kind, configuration)
        if not fail_open:
            return None
        names = ", ".join(fail_open[:_MOST_NAMED]) + (", …" if len(fail_open) > _MOST_NAMED else "")
        note = (
            f"{kind} {self._name} admits writes without a review if no webhook responds: "
            f"{format_count(len(fail_open), 'hook')} with failurePolicy Ignore instead of Fail: {names}. "
            f"To restore it, {ADVICE}"
        )
        return Event("WebhooksFailOpen", note, "Warning")

    def _tell(self, kind: str, event: Event) -> None:
        about = KINDS["admissionregistration.k8s.io", kind]
        self._record({"apiVersion": about.api_version, "kind": kind, "metadata": {"name": self._name}}, event)
