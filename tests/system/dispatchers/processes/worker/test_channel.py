"""When a worker sends what its actors have for the main process."""

import subprocess
import sys

# A program of its own: a channel's thread ends with its process.
_POSTS = """
import asyncio
from greenroom._core.scheduler.loop import Loop
from greenroom.system.dispatchers.processes.worker.channel import MainChannel
from greenroom.system.dispatchers.processes.worker.host import WorkerHost

channel = MainChannel(Loop(host=WorkerHost("system")), asyncio.new_event_loop(), limit=1000)
for number in range(1, 3000):
    channel.post("report", number)
    if not channel.has_mail():
        print(number)
"""


def test_every_1024_entries_are_sent_without_waiting_for_the_end_of_the_tick() -> None:
    done = subprocess.run([sys.executable, "-c", _POSTS], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1024\n2048\n", "")
