"""Weeks, windows and cron: when a budget is in force."""
