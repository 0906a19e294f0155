"""Secret files with one secret per line, and the secret path of the hooks.

A ``ValidatingWebhookConfiguration`` cannot have a password, but it can have a path. A caller that uses the secret path
is the API server, or a user who could read the configuration.

Both the server and ``harbormaster webhook-configuration`` read the file. The command prints the first secret, and the
server accepts all of them. To rotate, put a new secret in the first line, and remove the old one when the hub uses the
new one.

Source: docs/specifications/serving.md 8, "Strangers at the hooks".
"""

import re
from pathlib import Path
from typing import Final

from webhook.runtime.files import read_bounded
from webhook.settings.environment import PREFIX, SettingsError

ROOT: Final = "/hooks"
"""Path prefix of the secret. The path of the hook follows it."""
SHORTEST: Final = 32
LONGEST: Final = 128
MOST: Final = 8
"""Maximum number of secrets in a file. Each is compared with the secret of every caller."""

_SECRET: Final = re.compile(rf"[A-Za-z0-9_-]{{{SHORTEST},{LONGEST}}}", re.ASCII)


def read_secrets(path: Path | None, setting: str = "WEBHOOK_SECRET_FILE") -> tuple[str, ...]:
    """Return the secrets in a file, in order of lines. The first one is used, all are accepted. Empty without a file.

    Args:
        path: Path of the file. None: unset.
        setting: Name of its setting, for messages.

    Raises:
        SettingsError: The file is unusable. The message has its path, but none of its content.
    """
    if path is None:
        return ()
    location = f"{PREFIX}{setting}: {str(path)!r}"
    try:
        lines = [line.strip() for line in read_bounded(path).decode("ascii").splitlines()]
    except OSError as error:
        raise SettingsError(f"{location}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise SettingsError(f"{location}: must be ASCII text") from None
    secrets = tuple(line for line in lines if line)
    if not 0 < len(secrets) <= MOST:
        raise SettingsError(f"{location}: must have 1 to {MOST} secrets, one per line, has {len(secrets)}")
    for number, line in enumerate(lines, 1):
        if line and not _SECRET.fullmatch(line):
            raise SettingsError(
                f"{location}: line {number}: must be {SHORTEST} to {LONGEST} letters, digits, - or _, such as the "
                "output of `openssl rand -hex 32`"
            )
    return secrets


class SecretFile:
    """The current secrets in a file. Replacing the file revokes a secret immediately.

    Args:
        path: Path of the file. None: unset.
        setting: Name of its setting, for messages.
    """

    def __init__(self, path: Path | None, setting: str) -> None:
        self._path = path
        self._setting = setting
        self._cache: tuple[tuple[int, ...], tuple[str, ...]] = (), ()

    @property
    def is_set(self) -> bool:
        """Whether a file is set."""
        return self._path is not None

    def read(self) -> tuple[str, ...]:
        """Return the secrets, as `read_secrets`. An unchanged file is not read again.

        Raises:
            SettingsError: The file is unusable now.
        """
        mark = self._mark()
        cached_secret = self._cache
        if not mark or mark != cached_secret[0]:
            cached_secret = self._cache = mark, read_secrets(self._path, self._setting)
        return cached_secret[1]

    def _mark(self) -> tuple[int, ...]:
        """Return a value that changes whenever the file is written or replaced. Empty: unknown."""
        try:
            stat = self._path.stat() if self._path is not None else None
        except OSError:  # the read that follows fails as well, with a message for the operator
            return ()
        return () if stat is None else (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def secret_path(secrets: tuple[str, ...]) -> str:
    """Return the path prefix of the hooks, empty without a secret."""
    return f"{ROOT}/{secrets[0]}" if secrets else ""


def secret_in(url: str) -> str | None:
    """Return the secret in the path or URL of a hook. Empty: the path is plain. None: unknown, its form is wrong."""
    _, scheme, rest = url.partition("://")
    path = f"/{rest.partition('/')[2]}" if scheme else url
    if not path.startswith(f"{ROOT}/"):
        return ""
    secret = path.removeprefix(f"{ROOT}/").partition("/")[0]
    return secret if _SECRET.fullmatch(secret) else None
