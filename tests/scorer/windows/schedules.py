"""Budgets of many shapes for tests that draw them."""

from datetime import UTC, datetime

from hypothesis import strategies as st

from scorer.api.node_pool import Budget

SCHEDULES = st.sampled_from(
    [
        "* * * * *",
        "*/2 * * * *",
        "7-59/13 * * * *",
        "@hourly",
        "@daily",
        "@weekly",
        "@monthly",
        "@yearly",
        "0 */6 * * *",
        "0 8,20 * * *",
        "30 18 * * 5",
        "0 9 * * 1-5",
        "15 1 * * *",
        "59 23 * * *",
        "0 0 13 * 5",
        "0 0 1-7 * 1",
        "45 4 31 * *",
        "0 0 29 2 *",
        "0 12 29 2 0",
        "0 0 30 2 *",
        ", * * * *",
        "@every 1h",
        "@every 36h",
    ]
)
SHORT = ["0m", "1m", "2m", "13m", "30m", "59m", "1h", "90m", "5h59m", "6h", "8h", "16h"]
LONG = ["23h59m", "24h", "24h1m", "48h", "62h", "100h", "167h59m", "168h", "500h", "744h", "9000h", "2562047h"]
DURATIONS = st.sampled_from([*SHORT, *LONG])
INSTANTS = st.datetimes(datetime(2095, 12, 1), datetime(2105, 1, 1)) | st.datetimes(
    datetime(2026, 1, 1), datetime(2028, 12, 31)
)
AWARE = INSTANTS.map(lambda naive: naive.replace(tzinfo=UTC))
WINDOWED = st.fixed_dictionaries({"schedule": SCHEDULES}, optional={"duration": DURATIONS})
REASONS = st.none() | st.lists(st.sampled_from(["Drifted", "Empty", "Unhealthy"]), unique=True).map(tuple)


def budgets(nodes=("0", "0%", "1", "2", "5", "10%", "40%", "100%")):
    """Draw a budget: mostly scheduled, about some reasons."""
    return st.builds(
        lambda nodes, windowed, reasons: Budget(nodes=nodes, reasons=reasons, **windowed),
        st.sampled_from(nodes),
        st.one_of(WINDOWED, WINDOWED, WINDOWED, st.just({})),
        REASONS,
    )
