"""All benchmarks: ours, the target, and the floor measured in the same run. Ratios travel, absolute times do not."""

import subprocess
import sys

for part in (
    "tests.bench.engine",
    "tests.bench.admission",
    "tests.bench.hook",
    "tests.bench.scoring",
    "tests.bench.extender",
    "tests.bench.disruption",
    "tests.bench.node_disruption",
    "tests.bench.week",
    "tests.bench.loop",
    "tests.bench.staged",
    "tests.bench.upgrade",
    "tests.bench.node_disruption",
    "tests.bench.week",
    "tests.bench.memory",
    "tests.bench.page",
):  # each in a process of its own: memory counts
    subprocess.run([sys.executable, "-m", part], check=True)
    print(flush=True)
