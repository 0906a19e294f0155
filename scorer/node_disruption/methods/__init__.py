"""The planner's pass: emptiness, drift, consolidation and expiration, tried in order, and the validation of commands.

``execution`` carries the commands out.
"""
