"""The service: the only package that talks to an API server, a socket, a file."""
