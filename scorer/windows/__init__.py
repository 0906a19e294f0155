"""Weeks, windows and cron: when something is open."""
