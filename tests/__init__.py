"""Tests, each where its subject stands, and what they share: asserts in there say what they have compared, too."""

import pytest

pytest.register_assert_rewrite("tests.builders", "tests.scorer", "tests.vector_families", "tests.webhook")
