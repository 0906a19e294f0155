"""What plugins are: the cycle they are asked about, their answers, their protocols."""
