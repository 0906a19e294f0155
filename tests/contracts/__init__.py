"""Suites that several implementations of one Protocol are held to; each implementation's test module imports them."""

import pytest

pytest.register_assert_rewrite("tests.contracts.store_contract")
