"""Commands for upgrade runs: start, stop, skip, retry, plan and show."""
