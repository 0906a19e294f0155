"""Checks that only this user controls a data folder: its token grants access, and its content is trusted.

A folder in a world-writable directory such as ``/tmp`` may have been created by another user before the hub uses it.
That user may have stored a known token in the folder, or may be able to replace the folder later.

Source: as sshd with ``StrictModes``.
"""

import os
import pwd
import stat
from pathlib import Path
from typing import Final

ELSEWHERE: Final = "Choose another data folder with --data"
_MOST_LINKS: Final = 40
"""Maximum number of symbolic links in one lookup, as in the Linux kernel."""


class DataFolderError(Exception):
    """The data folder is unusable. The message names it and the reason."""


def check_folder(folder: Path) -> None:
    """Refuse a data folder that another user owns, can write or can replace.

    Raises:
        DataFolderError: Another user owns, can write or can replace the folder, or it cannot be checked.
    """
    try:
        # The path first: if another user can replace the folder, its current content proves nothing.
        for path in _way(folder.absolute()):
            _check_on_the_way(folder, path)
        resolved_folder = folder.resolve(strict=True)
        status = resolved_folder.stat()
        entries = {path: path.lstat().st_uid for path in sorted(resolved_folder.iterdir())}
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", "") or error
        raise DataFolderError(f"data folder {folder}: {reason}. {ELSEWHERE}") from error
    if status.st_uid != os.geteuid():
        raise DataFolderError(
            f"data folder {resolved_folder}: belongs to {name_of_owner(status.st_uid)} and not to you. {ELSEWHERE}"
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise DataFolderError(
            f"data folder {resolved_folder}: others can write it. Run chmod go-w {resolved_folder}, "
            "or choose another data folder with --data"
        )
    for path, owner in entries.items():  # files left by others while they could write the folder
        if owner != os.geteuid():
            raise DataFolderError(
                f"data folder {resolved_folder}: {path} belongs to {name_of_owner(owner)}. {ELSEWHERE}"
            )


def check_file(file: Path) -> None:
    """Refuse a file of a data folder that another user owns, can read or can write. A missing one is accepted.

    Raises:
        DataFolderError: Another user owns, can read or can write the file, or it is not a regular file.
    """
    try:
        status = file.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise DataFolderError(f"data folder {file.parent}: {file}: {error.strerror}. {ELSEWHERE}") from error
    subject = f"data folder {file.parent}: {file}"
    if not stat.S_ISREG(status.st_mode):
        raise DataFolderError(f"{subject} is not a regular file. Remove it, or choose another data folder with --data")
    if status.st_uid != os.geteuid():
        raise DataFolderError(
            f"{subject} belongs to {name_of_owner(status.st_uid)} and not to you. "
            "Remove it, or choose another data folder with --data"
        )
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise DataFolderError(
            f"{subject} is open to others. Remove it to get a new one, "
            f"or if no other user has read it: chmod go-rw {file}"
        )


def _way(folder: Path) -> list[Path]:
    """Return the directories and links that a lookup of a folder traverses, without the folder itself.

    Raises:
        RuntimeError: There are more than `_MOST_LINKS` links.
    """
    parents: list[Path] = []
    parts = list(reversed(folder.parts[1:]))
    at, links = Path(folder.anchor), 0
    while parts:
        parents.append(at)
        next_path = at / parts.pop()
        if not next_path.is_symlink():
            at = at.parent if next_path.name == ".." else next_path
            continue
        links += 1
        if links > _MOST_LINKS:
            raise RuntimeError("too many symbolic links")
        parents.append(next_path)
        target = next_path.readlink()
        at = Path(target.anchor) if target.is_absolute() else at
        parts += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    return parents


def _check_on_the_way(folder: Path, path: Path) -> None:
    status = path.lstat()
    if status.st_uid not in (0, os.geteuid()):
        raise DataFolderError(
            f"data folder {folder}: {path} belongs to {name_of_owner(status.st_uid)}, who can replace it. {ELSEWHERE}"
        )
    if stat.S_ISLNK(status.st_mode) or status.st_mode & stat.S_ISVTX:
        return
    others = stat.S_IWOTH if status.st_gid == os.getegid() == os.geteuid() else stat.S_IWOTH | stat.S_IWGRP
    if status.st_mode & others:  # a group with the number of its user is assumed to have no other member
        raise DataFolderError(
            f"data folder {folder}: others can write {path} and replace it. Run chmod go-w {path}, or choose another "
            "data folder with --data"
        )


def name_of_owner(uid: int) -> str:
    """Return name and uid of a user, or only the uid if the user has no name."""
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
