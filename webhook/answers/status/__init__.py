"""The status of a hub on one screen: pending actions, failures, removals and the next maintenance windows."""
