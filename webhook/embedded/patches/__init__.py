"""Patches as an API server applies them: merge patches, strategic merge patches and server-side apply."""
