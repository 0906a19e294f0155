"""The memory that the C library keeps: counted, limited and returned."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.load.memory import Cause, Sample, cause_of, sample_of
from webhook.telemetry import allocator
from webhook.telemetry.allocator import LIMITS, allocated, keep_trimming, limit_allocator, trim
from webhook.telemetry.process_metrics import ProcessMetrics

ROOT = Path(__file__).parents[3]
SCATTERED = """
from pathlib import Path
from webhook.telemetry.allocator import allocated, limit_allocator, trim

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

limit_allocator({})
blocks = [bytes(2000) for _ in range(30_000)]
kept = blocks[::100]  # no block below the last one can be returned by lowering the end of the heap
del blocks
free, before = allocated().free, resident()
trim()
print(free, before - resident())
"""
MEGABYTE = 2**20


def test_freed_memory_between_blocks_in_use_is_returned():
    ran = subprocess.run([sys.executable, "-c", SCATTERED], cwd=ROOT, capture_output=True, text=True, check=True)
    free, returned = map(int, ran.stdout.split())
    assert free > 40 * MEGABYTE
    assert returned > free / 2


async def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(allocator, "_LIBRARY", None)
    assert allocated() is None
    limit_allocator({})
    trim()
    await keep_trimming()


def test_the_image_sets_the_same_limits():
    """Where glibc reads them before Python runs."""
    found = re.findall(r"(MALLOC_\w+)=(\d+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert {name: int(value) for name, value in found} == LIMITS


def test_a_variable_of_the_environment_takes_precedence(monkeypatch):
    calls = {}

    class Library:
        @staticmethod
        def mallopt(option, value):
            calls[option] = value

    monkeypatch.setattr(allocator, "_LIBRARY", Library)
    limit_allocator({"MALLOC_ARENA_MAX": "8"})
    assert sorted(calls.values()) == sorted(value for name, value in LIMITS.items() if name != "MALLOC_ARENA_MAX")


def test_the_load_reads_the_metrics_of_a_process():
    content, _ = ProcessMetrics().exposition("")
    sample = sample_of(100.0, content.decode())
    assert sample.private == 100.0
    assert sample.blocks > 10_000
    assert (sample.used > 1) is (allocated() is not None)


@pytest.mark.parametrize(
    ("last", "cause"),
    [
        pytest.param(Sample(102, 1_010_000, 50.5, 1), Cause.STEADY, id="nothing"),
        pytest.param(Sample(130, 1_010_000, 50.5, 1), Cause.ALLOCATOR, id="only-the-process"),
        pytest.param(Sample(120, 1_300_000, 55, 21), Cause.BOUND, id="as-much-as-the-table"),
        pytest.param(Sample(160, 1_300_000, 55, 21), Cause.ALLOCATOR, id="the-table-and-more"),
        pytest.param(Sample(120, 1_300_000, 50, 1), Cause.LEAK, id="objects"),
        pytest.param(Sample(120, 1_000_000, 70, 1), Cause.LEAK, id="large-blocks"),
        pytest.param(Sample(99, 1_300_000, 50, 1), Cause.LEAK, id="objects-in-memory-that-was-free"),
        pytest.param(Sample(160, 1_900_000, 55, 21), Cause.LEAK, id="more-objects-than-the-table-has"),
        pytest.param(Sample(80, 800_000, 30, 0), Cause.STEADY, id="smaller"),
    ],
)
def test_why_a_program_has_grown(last, cause):
    assert cause_of(Sample(100, 1_000_000, 50, 1), last) is cause
