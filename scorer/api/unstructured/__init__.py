"""Decoded JSON without a model: tolerant readers, copies with a change, JSON Patch, and the masking of Secrets."""
