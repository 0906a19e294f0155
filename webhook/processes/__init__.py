"""The programs, each composed here and nowhere else: `up`, `serve`, `reconcile`, `agent`, and the rights they need."""
