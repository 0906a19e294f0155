"""What admission is told of the settings."""

import pytest

from webhook.settings.admission import EXEMPT_USERS, AdmissionSettings, ReviewSettings
from webhook.settings.environment import SettingsError

HOME = frozenset({"harbormaster-system"})
SWITCHES = [name for name in ReviewSettings.names() if ReviewSettings.model_fields[name].annotation is bool]


def test_by_default_admission_is_told_what_it_takes_for_granted():
    assert ReviewSettings().admission() == AdmissionSettings(
        own_namespace="harbormaster-system",
        unblocked_namespaces=HOME,
        skipped_namespaces=HOME,
        enforcement_exempt_users=frozenset(EXEMPT_USERS),
    )


@pytest.mark.parametrize("name", SWITCHES)
def test_every_switch_reaches_admission(name):
    turned = not getattr(ReviewSettings(), name)
    assert getattr(ReviewSettings(**{name: turned}).admission(), name) is turned


def test_the_loop_is_its_account_or_the_user_that_is_named():
    account = "system:serviceaccount:quay:pilot"
    variables = {"HARBORMASTER_NAMESPACE": "quay", "HARBORMASTER_SERVICE_ACCOUNT": "pilot"}
    assert ReviewSettings.read(variables).admission().controllers == {account}
    assert ReviewSettings.read(variables, loop_user="hub-loop").admission().controllers == {"hub-loop"}
    for name in ("system:admin", "a\nb"):
        with pytest.raises(SettingsError, match="without the prefix system:"):
            ReviewSettings.read(variables, loop_user=name)
