"""Cron schedules and windows: when a budget is active, and when changes to a member are allowed."""
