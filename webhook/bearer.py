"""The header that carries a bearer token."""


def bearer_token(header: str) -> str:
    """Return the token in the value of an ``Authorization`` header; empty when there is none that could be one."""
    scheme, _, rest = header.partition(" ")
    token = rest.strip()
    return token if scheme.lower() == "bearer" and token.isprintable() and " " not in token else ""
