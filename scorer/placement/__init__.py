"""Which member clusters a placement gets: decisions, records, the trace."""
