"""What a browser keeps: nobody but us can make or change it, and it ends."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.webhook.sign_in.lying_provider import options
from webhook.access.user import UserInfo
from webhook.settings.environment import SettingsError
from webhook.sign_in.sessions import BEGUN_LIFE, LONGEST_COOKIE, PendingSignIn, Session, Sessions
from webhook.sign_in.trouble import SignInError, SignInFailure

NOW = datetime(2026, 3, 1, 10, tzinfo=UTC)
ANN = Session(UserInfo("ann", frozenset({"viewers", "système"})), NOW + timedelta(hours=1))
FIRST, SECOND = "f" * 40, "g" * 40


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return options(tmp_path_factory.mktemp("secrets"), "https://accounts.example.com")


def sessions(settings, *secrets, now=NOW):
    return Sessions(settings, lambda: secrets or (FIRST,), lambda: now)


def test_what_one_replica_seals_another_opens(settings):
    assert sessions(settings).open(sessions(settings).close(ANN)) == ANN


def test_no_letter_of_it_says_who_it_is(settings):
    sealed = sessions(settings).close(ANN)
    assert sealed != sessions(settings).close(ANN)
    assert "ann" not in sealed


@given(data=st.data())
def test_one_that_has_been_changed_is_none(settings, data):
    sealed = sessions(settings).close(ANN)
    at = data.draw(st.integers(0, len(sealed) - 2))  # of the last letter, some bits count for nothing
    other = data.draw(st.sampled_from("ABCDwxyz0189-_=é.").filter(lambda letter: letter != sealed[at]))
    assert sessions(settings).open(sealed[:at] + other + sealed[at + 1 :]) is None


@given(text=st.text())
def test_what_was_never_sealed_is_none(settings, text):
    assert sessions(settings).open(text) is None
    assert sessions(settings).open_sign_in(text) is None


def test_that_of_another_secret_is_none(settings):
    assert sessions(settings, SECOND).open(sessions(settings, FIRST).close(ANN)) is None


def test_a_secret_is_replaced_without_signing_anybody_out(settings):
    kept = sessions(settings, FIRST).close(ANN)
    both = sessions(settings, SECOND, FIRST)
    assert both.open(kept) == ANN
    assert sessions(settings, SECOND).open(both.close(ANN)) == ANN


@pytest.mark.parametrize(
    "changed", [{"issuer": "https://other.example.com"}, {"client_id": "other"}, {"username_prefix": "x"}]
)
def test_that_of_other_settings_is_none(settings, changed):
    assert sessions(replace(settings, **changed)).open(sessions(settings).close(ANN)) is None


def test_it_ends(settings):
    sealed = sessions(settings).close(ANN)
    assert sessions(settings, now=ANN.ends - timedelta(seconds=1)).open(sealed) == ANN
    assert sessions(settings, now=ANN.ends).open(sealed) is None


def test_what_has_begun_is_no_session_and_ends_too(settings):
    begun = PendingSignIn.new()
    kept = sessions(settings).seal_sign_in(begun)
    assert sessions(settings).open_sign_in(kept) == begun
    assert sessions(settings).open(kept) is None
    assert sessions(settings).open_sign_in(sessions(settings).close(ANN)) is None
    assert sessions(settings, now=NOW + BEGUN_LIFE).open_sign_in(kept) is None


def test_no_two_have_anything_in_common():
    assert len({getattr(PendingSignIn.new(), name) for _ in range(10) for name in ("state", "nonce", "verifier")}) == 30


def test_one_that_no_browser_would_keep_is_refused_and_says_why(settings):
    def of(count):
        return Session(UserInfo("ann", frozenset(f"group-{number:04}" for number in range(count))), ANN.ends)

    assert len(sessions(settings).close(of(200))) <= LONGEST_COOKIE
    with pytest.raises(SignInError, match=r"the session has 5[0-9]* characters with 300 groups") as caught:
        sessions(settings).close(of(300))
    assert caught.value.trouble is SignInFailure.GROUPS


def test_while_the_secrets_cannot_be_read_there_are_no_sessions(settings, caplog):
    sealed = sessions(settings).close(ANN)

    def gone():
        raise SettingsError("HARBORMASTER_OIDC_SESSION_SECRET_FILE: no such file")

    assert Sessions(settings, gone, lambda: NOW).open(sealed) is None
    assert "session secrets not read" in caplog.text
