"""Checks whether the API server calls the hooks and follows their answer, with dry runs that are never stored.

The API server itself calls the hooks, so this covers its view: routes, Services, certificates.
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
    """Return a placement that selects *namespace*. Admission denies `WRONG_NAMESPACE`, and the schema allows it."""
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": namespace}
    return {
        "apiVersion": PLACEMENT.api_version,
        "kind": PLACEMENT.kind,
        "metadata": {"generateName": "harbormaster-test-"},
        "spec": {"resourceSelectors": [selector], "policy": {"placementType": "PickAll"}},
    }


@dataclass(frozen=True, slots=True)
class DryRuns:
    """Answers of the API server.

    Args:
        valid: Error for a valid placement. None if it would be stored.
        invalid: Error for an invalid placement. None if it would be stored.
    """

    valid: StoreError | None
    invalid: StoreError | None

    @property
    def distrust(self) -> str:
        """Reason why the API server does not trust the hooks' certificate. Empty: trusted, or hooks not called."""
        lines = (_line(answer) for answer in (self.valid, self.invalid) if answer is not None)
        return next((line for line in lines if "x509" in line or "tls:" in line), "")

    @property
    def answered(self) -> bool:
        """Whether a hook has denied a request, which proves that the API server trusts its certificate."""
        return any(_DENIED in str(answer) for answer in (self.valid, self.invalid) if answer is not None)


def judge_dry_runs(runs: DryRuns, namespace: str, *, is_registered: bool) -> Finding:
    """Check the answers of the API server.

    Args:
        runs: The answers.
        namespace: Namespace of the installation.
        is_registered: Whether webhook configurations exist.
    """
    for error in (runs.valid, runs.invalid):
        if isinstance(error, NotServedError) or (isinstance(error, ForbiddenError) and _DENIED not in str(error)):
            return refused(CHECK, error)
    if not is_registered:
        return unchecked(CHECK, "there are no webhook configurations (see webhooks)")
    if runs.distrust:
        return unchecked(CHECK, "the API server does not trust the server certificate (see certificates)")
    problems = []
    if runs.valid is not None:
        problems.append(f"a valid placement is refused: {_line(runs.valid)}")
    if runs.invalid is None:
        problems.append(
            f"a placement that selects namespace {WRONG_NAMESPACE} is accepted: the API server does not call the "
            "webhooks"
        )
    elif HOOK not in str(runs.invalid) and not problems:
        problems.append(
            f"a placement that selects namespace {WRONG_NAMESPACE} is refused, but not by {HOOK}: {_line(runs.invalid)}"
        )
    well = "the API server calls the webhooks: a valid placement is accepted, and an invalid one is refused"
    advice = (
        "is `harbormaster serve` running, and can the API server reach it? "
        f"kubectl get pods,endpointslices -n {namespace}; docs/admission.md, When no replica answers"
    )
    return judged(CHECK, problems, well, advice)


def _line(error: StoreError) -> str:
    """Return an error on one line, without the secret path that the API server names when it cannot call a hook."""
    return _SECRET.sub(f"{ROOT}/…", " ".join(str(error).split()))
