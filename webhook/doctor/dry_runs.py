"""Whether the API server asks us, and acts on the answer: tried with objects that are never stored.

It is the API server that calls the hooks, so this sees what it sees: routes, Services, certificates.
"""

import re
from dataclasses import dataclass
from typing import Final

from scorer.api.kinds import PLACEMENT
from scorer.api.meta import JsonObject
from webhook.admission.registration import DOMAIN
from webhook.doctor.finding import Finding, judged, refused, unchecked
from webhook.kube.ports import ForbiddenError, NotServedError, StoreError
from webhook.settings.secret_files import ROOT

CHECK: Final = "admission"
HOOK: Final = f"{PLACEMENT.plural}.validate.{DOMAIN}"
RIGHT_NAMESPACE, WRONG_NAMESPACE = "harbormaster-test", "kube-system"

_DENIED: Final = "denied the request"
_SECRET: Final = re.compile(rf"{ROOT}/[A-Za-z0-9_-]+")


def placement(namespace: str) -> JsonObject:
    """Return a placement of a namespace: admission refuses to place `WRONG_NAMESPACE`, and no definition does."""
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": namespace}
    return {
        "apiVersion": PLACEMENT.api_version,
        "kind": PLACEMENT.kind,
        "metadata": {"generateName": "harbormaster-test-"},
        "spec": {"resourceSelectors": [selector], "policy": {"placementType": "PickAll"}},
    }


@dataclass(frozen=True, slots=True)
class DryRuns:
    """What the API server has answered.

    Args:
        valid: The error for a valid placement; None: it would store it.
        invalid: Likewise for an invalid one.
    """

    valid: StoreError | None
    invalid: StoreError | None

    @property
    def distrust(self) -> str:
        """Why the API server does not trust whoever answers it; empty: it does, or has not asked."""
        lines = (_line(answer) for answer in (self.valid, self.invalid) if answer is not None)
        return next((line for line in lines if "x509" in line or "tls:" in line), "")

    @property
    def answered(self) -> bool:
        """Whether one of our hooks has judged something: then the API server trusts whoever answers it."""
        return any(_DENIED in str(answer) for answer in (self.valid, self.invalid) if answer is not None)


def judge_dry_runs(runs: DryRuns, namespace: str, *, is_registered: bool) -> Finding:
    """Judge what the API server has answered.

    Args:
        runs: What it has answered.
        namespace: Of the installation.
        is_registered: Whether webhook configurations exist.
    """
    for error in (runs.valid, runs.invalid):
        if isinstance(error, NotServedError) or (isinstance(error, ForbiddenError) and _DENIED not in str(error)):
            return refused(CHECK, error)
    if not is_registered:
        return unchecked(CHECK, "there are no webhook configurations; see webhooks")
    if runs.distrust:
        return unchecked(CHECK, "the API server does not trust the certificate that it is shown; see certificates")
    problems = []
    if runs.valid is not None:
        problems.append(f"a valid placement is refused: {_line(runs.valid)}")
    if runs.invalid is None:
        problems.append(f"a placement of namespace {WRONG_NAMESPACE} is accepted: the API server does not ask")
    elif HOOK not in str(runs.invalid) and not problems:
        problems.append(f"a placement of namespace {WRONG_NAMESPACE} is refused, not by {HOOK}: {_line(runs.invalid)}")
    well = "the API server asks: a valid placement is accepted, an invalid one refused"
    advice = (
        "does `harbormaster serve` run, and can the API server reach it? "
        f"kubectl get pods,endpointslices -n {namespace}; docs/admission.md, When no replica answers"
    )
    return judged(CHECK, problems, well, advice)


def _line(error: StoreError) -> str:
    """Write an error in a line, without the secret path that the API server names when it cannot call a hook."""
    return _SECRET.sub(f"{ROOT}/…", " ".join(str(error).split()))
