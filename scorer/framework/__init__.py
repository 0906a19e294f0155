"""The interface of plugins: their input (the cycle), their results, their protocols."""
