"""The web page without its data: static files, sign-in, and the OpenAPI document."""
