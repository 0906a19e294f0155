"""What admission is told of the settings."""

import pytest

from webhook.settings.admission import ReviewSettings
from webhook.settings.environment import SettingsError


def test_the_loop_is_its_account_or_the_user_that_is_named():
    account = "system:serviceaccount:quay:pilot"
    variables = {"HARBORMASTER_NAMESPACE": "quay", "HARBORMASTER_SERVICE_ACCOUNT": "pilot"}
    assert ReviewSettings.read(variables).admission().controllers == {account}
    assert ReviewSettings.read(variables, loop_user="hub-loop").admission().controllers == {"hub-loop"}
    for name in ("system:admin", "a\nb"):
        with pytest.raises(SettingsError, match="none of the system"):
            ReviewSettings.read(variables, loop_user=name)
