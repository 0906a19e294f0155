"""The documents of the project: read, held against the code, and made from it where that is possible."""
