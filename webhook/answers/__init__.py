"""What is answered about the fleet: scores, explanations, views, plans, what kube-schedulers ask."""
