"""Views on a run for users and programs: overview, timeline, forecast and content diff; they decide nothing."""
