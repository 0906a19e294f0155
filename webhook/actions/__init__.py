"""Writes to the hub that several programs make alike, such as approving or cordoning."""
