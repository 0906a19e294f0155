"""Users sign in to the page with an OpenID Connect provider, and their browser keeps a sealed session."""
