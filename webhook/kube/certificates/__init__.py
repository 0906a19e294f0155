"""Serving certificates signed by a certificate authority that all replicas share through a Secret."""
