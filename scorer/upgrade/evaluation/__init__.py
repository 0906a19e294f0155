"""One evaluation of a run as a state machine, rule by rule; pure: no calls, no clock."""
