"""State of one evaluation: its facts, the record that it changes, the operations in flight, and the step it returns."""
