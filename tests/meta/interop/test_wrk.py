"""`wrk`: as many requests as a second holds, on connections that are kept (E10)."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from greenroom import ActorSystem
from greenroom.meta import HttpRequest, Route
from tests.meta.interop.programs import needs, run
from tests.meta.owners import PATIENCE
from tests.meta.web.stage import Answer, AsyncAnswer, Stage, serve

pytestmark = needs("wrk")
CONNECTIONS = 8
GET = """
    request = function() return wrk.format("GET", "/n/7") end
"""
POST = """
    wrk.headers["content-type"] = "text/plain"
    request = function() return wrk.format("POST", "/size", nil, string.rep("x", 3000)) end
"""
PIPELINED = """
    request = function() return wrk.format("GET", "/n/1") .. wrk.format("POST", "/size", nil, "xyz") end
"""


async def size(asked: HttpRequest) -> str:
    return str(sum([len(piece) async for piece in asked.body]))


class Load(NamedTuple):
    """What `wrk` has to say: answers, all of them good, and how often it was run until the machine had time for any."""

    answers: int
    runs: int


async def wrk(stage: Stage, script: Path) -> Load:
    """Have a server asked for a second."""
    load = ("--threads", 2, "--connections", CONNECTIONS, "--duration", "1s", "--timeout", f"{PATIENCE:.0f}s")
    for runs in count(1):
        done = await run("wrk", *load, "--script", script, f"http://127.0.0.1:{stage.port}/")
        said = done.output.decode()
        assert done.status == 0, done
        # It mentions these only if there are any.
        assert "Socket errors" not in said, said
        assert "Non-2xx" not in said, said
        answered = re.search(r"(\d+) requests in", said)
        assert answered is not None, said
        if answered[1] != "0":
            return Load(int(answered[1]), runs)
    raise AssertionError


@pytest.mark.parametrize(("script", "pipelined"), [(GET, 1), (POST, 1), (PIPELINED, 2)], ids=["get", "post", "pipe"])
async def test_wrk_is_answered_as_fast_as_it_asks(
    system: ActorSystem, tmp_path: Path, script: str, pipelined: int
) -> None:  # E10
    bodies: list[Any] = []

    def answer(asked: HttpRequest) -> dict[str, str]:
        bodies.append(asked.body)
        return {"n": asked.params["n"]}

    file = tmp_path / "script.lua"
    file.write_text(script)
    sized = [system.spawn(AsyncAnswer, size) for _ in range(2)]
    routes = {"GET /n/{n}": system.spawn(Answer, answer), "POST /size": Route(sized, stream=True)}
    stage = await serve(system, routes)
    load = await wrk(stage, file)
    # One more, to see whether somebody is there.
    await stage.until_shown("taken", load.runs * (CONNECTIONS + 1))
    await stage.until_shown("connections", 0)
    counts = await stage.alias.inspect("requests", "refused")
    # Those on their way when the second was over were asked too, but not counted.
    assert load.answers <= counts["requests"] <= load.answers + load.runs * CONNECTIONS * pipelined, counts
    assert counts["refused"] == 0
    assert not any(bodies)
