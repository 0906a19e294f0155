"""The checks and preferences of scheduling, one module each."""
