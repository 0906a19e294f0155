"""Cron expressions of every shape for tests that draw them, and the fires of a schedule in a row."""

from collections.abc import Iterator
from datetime import UTC, datetime

from hypothesis import strategies as st

from scorer.windows.cron import CronSchedule
from scorer.windows.fires import next_fire


def cron_fields(low: int, high: int) -> st.SearchStrategy[tuple[str, frozenset[int], bool]]:
    """Texts of one field with their meaning: the allowed values and the star mark."""

    def item(draw):
        first = draw(st.integers(low, high))
        last = draw(st.integers(first, high))
        step = draw(st.integers(1, high + 2))
        every = range(low, high + 1)
        return draw(
            st.sampled_from(
                [
                    ("*", set(every), True),
                    ("?", set(every), True),
                    ("*/1", set(every), True),
                    (f"*/{step}", set(every[::step]), step == 1),
                    (f"{first}", {first}, False),
                    (f"{first}-{last}", set(range(first, last + 1)), False),
                    (f"0{first}-{last}/{step}", set(range(first, last + 1, step)), False),
                    (f"+{first}/{step}", set(range(first, high + 1, step)), False),
                    ("", set(), False),
                ]
            )
        )

    def join(items):
        allowed = frozenset().union(*(values for _, values, _ in items))
        return ",".join(text for text, _, _ in items) or ",", allowed, any(star for _, _, star in items)

    return st.lists(st.composite(item)(), min_size=1, max_size=3).map(join)


FIELDS = st.tuples(cron_fields(0, 59), cron_fields(0, 23), cron_fields(1, 31), cron_fields(1, 12), cron_fields(0, 6))
EXPRESSIONS = FIELDS.map(lambda fields: " ".join(text for text, _, _ in fields))
INSTANTS = st.datetimes(datetime(1970, 1, 1), datetime(2100, 12, 31)).map(lambda naive: naive.replace(tzinfo=UTC))


def fires_after(schedule: CronSchedule, instant: datetime) -> Iterator[datetime]:
    """Yield the fires strictly after *instant*; each search starts at the fire before."""
    fire = next_fire(schedule, instant)
    while fire is not None:
        yield fire
        fire = next_fire(schedule, fire)
