"""The folder in which the program was when it imported this package.

`''` on `sys.path` means the current folder. A program may import its own modules from there, and then go elsewhere;
worker processes that it starts later must find them all the same.
"""

from __future__ import annotations

import os


def _current_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - pathlib takes long to import (P17)
    except OSError:  # it has been removed
        return ""


ORIGINAL_DIR = _current_folder()
