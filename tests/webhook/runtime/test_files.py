"""Files that an operator names are read up to a bound."""

from pathlib import Path

import pytest

from webhook.runtime.files import LARGEST_FILE_BYTES, read_bounded


def test_a_file_as_large_as_may_be_is_read_and_one_byte_more_is_not(tmp_path):
    path = tmp_path / "file"
    content = b"a" * LARGEST_FILE_BYTES
    path.write_bytes(content)
    assert read_bounded(path) == content
    path.write_bytes(content + b"a")
    with pytest.raises(OSError, match=f"larger than {LARGEST_FILE_BYTES} bytes: '{path}'"):
        read_bounded(path)


def test_a_file_without_end_is_given_up():
    with pytest.raises(OSError, match="larger than"):
        read_bounded(Path("/dev/zero"))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_bounded(tmp_path / "nowhere")
