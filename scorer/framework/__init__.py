"""What plugins are: their input (the cycle), their answers, their protocols."""
