"""Sign-in to the page with an OpenID Connect provider. The browser keeps the session in an encrypted cookie."""
