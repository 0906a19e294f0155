"""Rule coverage: the admission rules that reported something in at least one case.

It counts rules that refuse or warn, for the kinds that cases write and the operations that they perform. Rules that
fill in or rewrite fields show in stored objects, and rules that allow something report nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from scorer.api.kinds import Kind
from scorer.api.unstructured.json_object import JsonObject
from webhook.admission.catalogue import catalogue
from webhook.cli.policy_tests.runner import Judged
from webhook.validation.framework.rule import Rule, Severity

_SPEAK: Final = frozenset({Severity.DENY, Severity.WARN})


@dataclass(frozen=True, slots=True)
class Coverage:
    """Rules with the number of cases that made them report something.

    Args:
        counts: The applicable rules, in the order of the catalog, each with its number of cases.
        kinds: The kinds that the cases write.
    """

    counts: Sequence[tuple[Rule, int]]
    kinds: Sequence[Kind]

    @classmethod
    def of(cls, judgements: Iterable[Judged]) -> "Coverage":
        """Return the coverage of the writes that cases were about."""
        writes = list(judgements)
        covered = {(judgement.kind, judgement.operation) for judgement in writes}
        rule_counts = Counter(rule for judgement in writes for rule in judgement.rules)
        counts = [
            (entry.rule, rule_counts[entry.rule.id])
            for entry in catalogue()
            if not _SPEAK.isdisjoint(entry.rule.severity)
            and any(
                (enforcement.kind, operation) in covered
                for enforcement in entry.enforced
                for operation in enforcement.operations
            )
        ]
        return cls(counts, sorted({kind for kind, _ in covered}, key=lambda kind: kind.plural))

    @property
    def exercised(self) -> int:
        """Number of rules that reported something."""
        return sum(count > 0 for _, count in self.counts)

    @property
    def percent(self) -> float:
        """Percentage of the applicable rules that reported something, 100 without applicable rules."""
        return 100 * self.exercised / len(self.counts) if self.counts else 100.0

    def rows(self) -> Iterator[list[str]]:
        """Yield one row per rule."""
        for rule, count in self.counts:
            yield [rule.id, str(count) if count else "-", ",".join(rule.severity), rule.what]

    def summary(self) -> str:
        """Return the coverage in one line."""
        kinds = ", ".join(kind.plural for kind in self.kinds) or "no kind"
        return f"{self.exercised} of {len(self.counts)} rules for {kinds} exercised: {self.percent:.1f} %"

    def document(self) -> JsonObject:
        """Return the coverage as JSON."""
        return {
            "kinds": [kind.plural for kind in self.kinds],
            "rules": len(self.counts),
            "exercised": self.exercised,
            "percent": round(self.percent, 1),
            "items": [{"rule": rule.id, "cases": count, "demands": rule.what} for rule, count in self.counts],
        }
