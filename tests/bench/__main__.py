"""All benchmarks: ours, the target, and the floor measured in the same run. Ratios travel, absolute times do not."""

from tests.bench import engine, loop

engine.main()
print()
loop.main()
