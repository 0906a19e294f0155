"""``harbormaster test``: the file format, the runner, the comparison and the reports."""
