"""The interface of plugins: their input (the cycle), their answers, their protocols."""
