"""The HTTPS server: its sockets, its certificates, the application that answers on it."""
