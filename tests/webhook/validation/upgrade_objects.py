"""Upgrade objects as small as they may be, and what admission says about a write of one."""

from webhook.access.user import UserInfo
from webhook.admission.judge import judge
from webhook.validation.framework.context import Context

API_VERSION = "upgrade.harbormaster.dev/v1alpha1"
FULL = {"type": "Full", "kubernetesVersion": "1.31.2"}
IMAGES_ONLY = {"type": "NodeImageOnly"}
AT_NIGHT = {"startDay": "Monday", "startTime": "02:00"}
DAILY = {"daily": {"intervalDays": 1}}
ALICE = Context().with_user(UserInfo("alice"))
"""An empty hub, and a user who is not harbormaster."""


def make(kind, spec, status=None, name="x"):
    document = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
    return document if status is None else {**document, "status": status}


def make_stage(name="s", **fields):
    return {"name": name, "memberSelector": {}, **fields}


def make_strategy(*stages, **fields):
    return make("ClusterUpgradeStrategy", {"stages": [*stages], **fields})


def make_run(status=None, *, started=True, **spec):
    """A run; with a state as *status*, one that is stored."""
    if status is not None:
        status = {"state": status, **({"startTime": "2025-01-06T00:00:00Z"} if started else {})}
    return make("ClusterUpgradeRun", {"upgrade": FULL, **spec}, status)


def make_gate(state=None, answer=None, **spec):
    spec = {"runName": "r", "stage": "s", "timing": "Before", "index": 0, "type": "Approval", **spec}
    status = {} if state is None else {"state": state}
    if answer is not None:
        status["conditions"] = [{"type": "Approved", "status": answer, "reason": "Said", "message": ""}]
    return make("ClusterUpgradeGate", spec, status or None)


def make_window(**spec):
    return make("ClusterMaintenanceWindow", {"schedule": DAILY, "startTime": "22:00", **spec})


def make_request(phase=None, **spec):
    spec = {"operationID": "u/c/1", "runName": "r", "memberName": "c", "upgradeType": "NodeImageOnly", **spec}
    return make("ClusterUpgradeRequest", spec, None if phase is None else {"phase": phase})


def refusal(document, old=None, context=ALICE, subresource=""):
    """The rules and fields that a write is refused for."""
    verdict = judge("CREATE" if old is None else "UPDATE", document, old, context, subresource=subresource)
    assert verdict.allowed is not bool(verdict.errors)
    return [(error.rule, str(error.field)) for error in verdict.errors]


def said(document, old=None, context=ALICE, subresource=""):
    """The refusal in words, without the object."""
    operation = "CREATE" if old is None else "UPDATE"
    return judge(operation, document, old, context, subresource=subresource).message.partition(" is invalid: ")[2]


def warnings(document, old=None, context=ALICE):
    """What a write is warned about; it must pass."""
    verdict = judge("CREATE" if old is None else "UPDATE", document, old, context)
    assert verdict.allowed, verdict.errors
    return list(verdict.warnings)
