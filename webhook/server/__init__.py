"""The HTTPS server: its sockets, its certificates, and the application that answers on it."""
