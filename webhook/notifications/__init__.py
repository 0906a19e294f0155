"""Notifications: Events that need a person, posted over HTTP to a receiver such as a chat or a pager."""
