"""Callers and their permissions: users, rights, bearer tokens, and the ports for authentication and authorization."""
