"""Views of a run for users and programs: overview, timeline, forecast and content diff. They make no decisions."""
