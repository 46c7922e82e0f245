"""A browser without a window, driven by the DevTools protocol: https://chromedevtools.github.io/devtools-protocol/."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from queue import Queue
from types import TracebackType
from typing import Any, Self

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as websocket

from tests.meta.owners import PATIENCE

__all__ = ["Browser", "Tab"]

FLAGS = (
    "--headless",
    "--no-sandbox",  # root has none
    "--no-first-run",
    "--remote-debugging-port=0",
    # Nobody else is asked anything, and no name resolved.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--no-proxy-server",
    # What a machine for tests may not have.
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-gpu",
    # A tab behind another one is as quick.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
)
LARGEST = 1 << 24


class Browser:
    """One process of Chromium, and its children; behind the `with` it has ended."""

    def __init__(self, profile: Path) -> None:
        homes = {name: str(profile) for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
        self._process = subprocess.Popen(
            ["chromium", *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, **homes},
        )
        self._said: list[str] = []
        self._where: Queue[str] = Queue()
        # It complains a lot, and would be held up if nobody listened.
        self._listener = threading.Thread(target=self._listen, name="what Chromium says", daemon=True)

    def __enter__(self) -> Self:
        self._listener.start()
        try:
            self._url = self._where.get(timeout=PATIENCE)
            assert self._url, "".join(self._said[-50:])
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join(PATIENCE)  # when the last of its children has ended

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            for line in stream:
                self._said.append(line.decode(errors="replace"))
                _, found, url = self._said[-1].partition("DevTools listening on ")
                if found:
                    self._where.put(url.strip())
        self._where.put("")

    @asynccontextmanager
    async def tab(self, url: str) -> AsyncIterator[Tab]:
        """A tab with a page, once that is loaded; behind the `async with` it is closed."""
        options: Any = {"max_size": LARGEST, "compression": None, "proxy": None}
        options |= {"open_timeout": PATIENCE, "ping_interval": None}
        async with websocket(self._url, **options) as connection:
            itself = Tab(connection)
            # A window of its own: both of two are in front.
            made = await itself.call("Target.createTarget", url="about:blank", newWindow=True)
            target = made["targetId"]
            try:
                base = self._url.partition("/devtools/")[0]
                async with websocket(f"{base}/devtools/page/{target}", **options) as to_page:
                    tab = Tab(to_page)
                    await tab.open(url)
                    yield tab
            finally:
                await itself.call("Target.closeTarget", targetId=target)


class Tab:
    """A page, to run scripts in and to type into."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._ids = count(1)
        self._events: list[str] = []

    async def call(self, method: str, **params: Any) -> Any:
        """Have the browser do something; the result."""
        number = next(self._ids)
        await self._connection.send(json.dumps({"id": number, "method": method, "params": params}))
        while (said := await self._heard()).get("id") != number:
            pass
        assert "error" not in said, said
        return said["result"]

    async def _heard(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            said: dict[str, Any] = json.loads(await self._connection.recv())
        if "method" in said:
            self._events.append(said["method"])
        return said

    async def open(self, url: str) -> None:
        """Load a page, and wait until that is done."""
        await self.call("Page.enable")
        went = await self.call("Page.navigate", url=url)
        assert "errorText" not in went, went
        while "Page.loadEventFired" not in self._events:
            await self._heard()

    async def run(self, script: str) -> Any:
        """What the body of an async function in the page returns, as JSON has it."""
        wrapped = f"(async () => {{ {script} }})()"
        done = await self.call("Runtime.evaluate", expression=wrapped, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    async def type(self, text: str) -> None:
        """Type a text into what has the focus, and then Enter."""
        await self.call("Input.insertText", text=text)
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key="Enter", text="\r", windowsVirtualKeyCode=13)
