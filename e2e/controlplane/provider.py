"""Dex as a process of its own: where people sign in, with a form of its own and keys of its own."""

import json
import secrets
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2e.controlplane.cluster import LOOPBACK
from e2e.controlplane.process import PATIENCE, Program, free_port

CLIENT = "harbormaster"
PASSWORD = "all people have this one"


class SignInProvider:
    """One provider.

    It is reached as ``localhost``, so that for a browser it is another site than what listens on an address.

    Args:
        dex: The program.
        folder: For its configuration and log; made when missing.
        page: The origin that it sends people back to.
        people: The groups of everybody, by name.
    """

    def __init__(self, dex: Path, folder: Path, page: str, people: Mapping[str, list[str]]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.issuer = f"http://localhost:{port}/dex"
        self._folder = folder
        self._secret = secrets.token_urlsafe(24)
        configuration = folder / "dex.json"
        document = {
            "issuer": self.issuer,
            "listen": f"{LOOPBACK}:{port}",
            "client": CLIENT,
            "secret": self._secret,
            "redirects": [f"{page}/sign-in/callback"],
            "tokenSeconds": 24 * 3600,
            "people": {
                name: {"password": PASSWORD, "email": f"{name}@example.com", "verified": True, "groups": groups}
                for name, groups in people.items()
            },
        }
        configuration.write_text(json.dumps(document), encoding="utf-8")
        self.program = Program([dex, configuration], folder / "dex.log")
        self._page = page

    def settings(self) -> dict[str, Any]:
        """What ``serve`` has to be told of it."""
        client, sessions = self._folder / "client", self._folder / "sessions"
        for path, secret in ((client, self._secret), (sessions, secrets.token_hex(32))):
            path.touch(mode=0o600)
            path.write_text(secret, encoding="ascii")
        return {
            "oidc_issuer_url": self.issuer,
            "oidc_client_id": CLIENT,
            "oidc_client_secret_file": client,
            "oidc_session_secret_file": sessions,
            "oidc_page_url": self._page,
            "oidc_scopes": "openid,profile,email,groups",
            "oidc_username_claim": "email",
            "oidc_username_prefix": "oidc:",
            "oidc_groups_claim": "groups",
            "oidc_groups_prefix": "oidc:",
            "oidc_name": "Dex",
        }

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.program.start()
        self.program.wait_ready(self._ready)

    def _ready(self) -> bool:
        with urllib.request.urlopen(f"{self.issuer}/.well-known/openid-configuration", timeout=PATIENCE) as answer:
            return bool(answer.status == 200)
