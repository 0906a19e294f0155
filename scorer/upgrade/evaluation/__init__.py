"""One evaluation of a run as a state machine, rule by rule. Pure: no I/O, no clock."""
