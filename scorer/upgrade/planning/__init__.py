"""What will become of an upgrade run: the engine on a moved clock, with upgrades as long as expected."""
