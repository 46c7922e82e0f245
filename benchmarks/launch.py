"""Run one program in a fresh process and understand its one line of JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from benchmarks.model import Program, Setting
from benchmarks.program import Report, Unavailable

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT = 300.0
QUICK_TIMEOUT = 60.0


class Broken(Exception):
    """The program ran and gave no usable figure; the text says what went wrong."""


def run_program(program: Program, setting: Setting) -> Report:
    """One measurement; raises Unavailable when the program declines, Broken when it fails."""
    command = program.command(setting)
    timeout = QUICK_TIMEOUT if setting.quick else TIMEOUT
    # An emulator that crashes would otherwise leave its dump in the checkout.
    environment = os.environ | {"ERL_CRASH_DUMP_BYTES": "0"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )
    except OSError as error:
        raise Unavailable(f"{command[0]} cannot be started ({error})") from error
    except subprocess.TimeoutExpired as error:
        raise Broken(f"no result within {timeout:.0f} s") from error
    return parse_output(done.returncode, done.stdout, done.stderr)


def parse_output(status: int, stdout: str, stderr: str) -> Report:
    """The report in the last line of ``stdout``; raises Unavailable or Broken when there is none."""
    if status < 0:
        raise Broken(f"killed by {signal.Signals(-status).name}")
    if status != 0:
        raise Broken(_last_line(stderr) or f"ended with status {status}")
    last = _last_line(stdout)
    try:
        answer = json.loads(last)
        if "skipped" in answer:
            raise Unavailable(str(answer["skipped"]))
        return Report(float(answer["value"]), answer.get("parts", {}))
    except (ValueError, KeyError, TypeError) as error:
        raise Broken(f"printed {last!r}, not one line of JSON with a value") from error


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
