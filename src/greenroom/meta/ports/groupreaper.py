"""Kills programs that have become orphans: this process was killed, and could not end them itself.

A shell holds their process groups, and waits for the end of a pipe that only this process holds open. There is one for
all programs, from the first to the last.
"""

from __future__ import annotations

import os
import subprocess
import threading
from contextlib import suppress

from greenroom.wire.forks import no_forks

_SCRIPT = """
groups=
while read -r what id; do
    case $what in
        +) groups="$groups $id" ;;
        -) left=; for one in $groups; do [ "$one" = "$id" ] || left="$left $one"; done; groups=$left ;;
    esac
done
for one in $groups; do kill -9 "-$one"; done 2> /dev/null
"""

_lock = threading.Lock()
# Invariant: both are written under _lock; there is a shell iff there are groups, of this very process
_groups: dict[int, None] = {}
_shell: subprocess.Popen[bytes] | None = None
_home = 0


def guard(group: int) -> None:
    """Have `group` killed if this process is killed."""
    global _shell, _home
    with _lock:
        if _home != os.getpid():  # forked: those are the parent's
            _groups.clear()
            _shell, _home = None, os.getpid()
        if _shell is None:
            with suppress(OSError), no_forks:  # without a shell there is no such guard
                _shell = subprocess.Popen(
                    ["/bin/sh", "-c", _SCRIPT],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # so that Ctrl-C does not end it
                )
        _groups[group] = None
        _tell("+", group)


def release(group: int) -> None:
    global _shell
    with _lock:
        if _home != os.getpid() or _groups.pop(group, group) is not None:
            return
        _tell("-", group)
        if not _groups and _shell is not None:
            shell, _shell = _shell, None
            with suppress(OSError):
                shell.communicate()


def _tell(what: str, group: int) -> None:
    if _shell is not None and _shell.stdin is not None:
        with suppress(OSError):
            _shell.stdin.write(f"{what} {group}\n".encode())
            _shell.stdin.flush()
