"""Paths that models name."""

import errno
import os
from pathlib import Path


def resolved(path: Path) -> Path:
    """With all links followed, whether there is a file or not.

    Raises OSError for links in a circle; `Path.resolve` raises RuntimeError, and nothing from Python 3.13 on.
    """
    result = Path(os.path.realpath(path))
    try:
        result.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise
    return result
