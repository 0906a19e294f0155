"""Certificates: the authority, when to renew, and the live TLS context."""
