"""``/v1/upgrade``: plans of upgrade runs, actions on them, and status reports of external upgraders."""
