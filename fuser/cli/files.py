"""Files that a command writes beside its main result: refused before the work, written whole after it."""

from __future__ import annotations

import os
from pathlib import Path

from fuser.errors import OutputError


def refuse_unwritable(path: Path, *, others: tuple[Path, ...]) -> None:
    """Refuse now what could not be written later. ``others`` are files of the same run that must stay.

    Raises:
        OutputError: the path is a folder or no regular file, its folder is missing or can't be written, or it
            is one of the others.
    """
    if path.is_dir():
        raise OutputError(f"{path} is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise OutputError(f"the folder {path.parent} does not exist; make it, or write somewhere else")
    if path.exists() and not path.is_file():
        raise OutputError(f"{path} is no regular file; write somewhere else")
    if not os.access(path.parent, os.W_OK):
        raise OutputError(
            f"the folder {path.parent} can't be written; change its permissions, or write somewhere else"
        )
    for other in others:
        if path.resolve() == other.resolve():
            raise OutputError(
                f"{path} is named twice, for two different things; give the report a name of its own"
            )


def write_whole(path: Path, text: str) -> None:
    """Write the text beside its destination and rename it: there is the whole file or what was there before.

    Raises:
        OutputError: it can't be written.
    """
    from fuser.storage.atomic import Staging

    with Staging() as staging:
        staging.write(path.resolve(), [memoryview(text.encode())], digest=False)
        staging.commit()
