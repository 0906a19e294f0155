"""Rules on staged update strategies, runs and approval requests. Fleet-wide version upgrades are in ``upgrade``."""
