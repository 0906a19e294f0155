"""People sign in to the page at an OpenID Connect provider, and their browser keeps a sealed session."""
