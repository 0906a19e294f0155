"""Texts with the characters that Go escapes in JSON."""

from typing import Final

from hypothesis import strategies as st

GO_ESCAPED: Final = "<>&\u2028\u2029"
"""They take six bytes each in etcd, and in the text that is hashed."""
GO_TEXTS: Final = st.text(
    st.sampled_from(GO_ESCAPED) | st.sampled_from("a1.,:é\u2027\n\x7f\ufffd\U0001f600"), max_size=8
)
