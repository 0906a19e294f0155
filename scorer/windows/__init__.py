"""Weeks, windows and cron: when a budget is in force, and when a member may be touched."""
