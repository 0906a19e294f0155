"""Commands that check objects in files as admission would, and the reports that CI reads."""
