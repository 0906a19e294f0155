"""Answers about the fleet: scores, explanations, views, plans, and answers to kube-schedulers."""
