"""One pass of a run: the state machine, the stage that it works on, and the deletion stage.

Pure: no calls, no clock.
"""
