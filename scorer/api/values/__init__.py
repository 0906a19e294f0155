"""Values inside fields and their grammars: durations, quantities, label selectors, names, field paths.

No whole objects.
"""
