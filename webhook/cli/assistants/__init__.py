"""The server for assistants: read-only tools of the Model Context Protocol, each answered by a command."""
