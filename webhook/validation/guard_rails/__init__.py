"""Guard rails: which user may write or delete which object, regardless of its content. Validity is not checked here."""
