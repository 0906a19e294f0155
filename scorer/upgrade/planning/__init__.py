"""The plan of a run: a forecast by the engine on a simulated clock, with expected durations."""
