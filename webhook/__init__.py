"""The service: the only package that accesses API servers, sockets and files."""
