"""Commands that answer an approval request of a staged update or a gate of an upgrade run."""
