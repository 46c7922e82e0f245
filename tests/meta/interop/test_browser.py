"""Chromium: its WebSockets, its streams, and people who chat with it (E10)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from examples.chat.room import Chat
from greenroom import ActorSystem, props
from greenroom.meta import (
    Close,
    Closed,
    HttpRequest,
    HttpResponse,
    Received,
    Route,
    WebLimits,
    WebSocket,
    WebSocketConnected,
    Write,
)
from greenroom.testing import TestProbe
from tests.gates import Event
from tests.meta.interop.browser import Browser, Tab
from tests.meta.interop.programs import held_port, needs
from tests.meta.owners import PATIENCE, Echo
from tests.meta.web.stage import Answer, AsyncAnswer, Reporter, Stage, serve

pytestmark = needs("chromium")

# What all scripts for WebSockets begin with: `socket` is open, `next()` is what it receives next, `closed` its end.
OPEN = """
    const socket = new WebSocket(`ws://${location.host}/ws`, ["x", "chat"]);
    socket.binaryType = "arraybuffer";
    const came = [], waiting = [];
    socket.onmessage = ({data}) => waiting.length ? waiting.shift()(data) : came.push(data);
    const next = () => came.length ? came.shift() : new Promise(resolve => waiting.push(resolve));
    const closed = new Promise(resolve => {
        socket.onclose = ({code, reason, wasClean}) => resolve([code, reason, wasClean]);
    });
    await new Promise((resolve, reject) => { socket.onopen = resolve; socket.onerror = reject; });
"""


async def serve_page(system: ActorSystem, **routes: Any) -> Stage:
    """A server with an empty page at `/`, and what else it is to have at `/name`."""
    page = system.spawn(Answer, lambda asked: HttpResponse.html("<!doctype html><title>page</title>"))
    paths = {"GET /": page, **{f"/{name}": target for name, target in routes.items()}}
    # However busy the browser is, it has time to hear of the end.
    return await serve(system, paths, limits=WebLimits(linger=PATIENCE))


def url_of(stage: Stage) -> str:
    return f"http://127.0.0.1:{stage.port}/"


# -- WebSockets


async def test_a_browser_gets_back_what_it_sends(system: ActorSystem, browser: Browser) -> None:  # E10
    stage = await serve_page(system, ws=WebSocket(Echo, subprotocols=["chat"]))
    async with browser.tab(url_of(stage)) as tab:
        script = """
                const random = size => crypto.getRandomValues(new Uint8Array(size));
                const texts = ["hello", "", "grüße 🎭", "lorem ipsum ".repeat(10_000), "\\0"];
                // 100 kB: more random bytes than that are not given at once, and they do not get smaller.
                const bytes = [new Uint8Array(), random(1), random(50_000), new Uint8Array(100_000)];
                const large = new Uint8Array([...random(50_000), ...random(50_000)]);
                const same = [];
                for (const text of texts) { socket.send(text); same.push(await next() === text); }
                for (const data of [...bytes, large]) {
                    socket.send(data);
                    const back = new Uint8Array(await next());
                    same.push(back.length === data.length && back.every((byte, index) => byte === data[index]));
                }
                // Many at once, and all of them in order.
                for (let number = 0; number < 500; number++) socket.send(`${number}`);
                for (let number = 0; number < 500; number++) same.push(await next() === `${number}`);
                socket.close();
                return [socket.extensions, socket.protocol, same.every(each => each), same.length, await closed];
            """
        extensions, protocol, all_same, number, closed = await tab.run(OPEN + script)
    assert extensions.startswith("permessage-deflate")
    assert protocol == "chat"
    assert (all_same, number) == (True, 510)
    # A code that it did not give is not made up by the server: 1005 is "none".
    assert closed == [1005, "", True]
    await stage.until_shown("websockets", 0)


async def test_a_browser_says_why_it_closes(system: ActorSystem, browser: Browser) -> None:  # E10
    probe = TestProbe(system)
    stage = await serve_page(system, ws=WebSocket(props(Reporter, probe.ref)))
    async with browser.tab(url_of(stage)) as tab:
        script = OPEN.replace(', ["x", "chat"]', "")
        said = await tab.run(script + 'socket.send("last"); socket.close(4001, "grüße"); return closed;')
        assert said == [4001, "grüße", True]
    _, up = await probe.expect(tuple)
    assert isinstance(up, WebSocketConnected)
    assert up.request.headers["origin"] == url_of(stage).rstrip("/")
    assert (await probe.expect(tuple))[1] == Received(up.alias, "last")
    assert (await probe.expect(tuple))[1] == Closed(up.alias, "eof", code=4001, text="grüße")


@pytest.mark.parametrize(
    ("does", "expected"),
    [
        ("close", [4002, "enough ü", True]),
        ("fail", [1011, None, True]),
        ("too large", [1009, None, True]),
        ("stop the server", [1001, None, True]),
        ("abort", [1006, "", False]),
    ],
)
async def test_a_browser_is_told_why_it_is_closed(
    system: ActorSystem, browser: Browser, does: str, expected: list[Any]
) -> None:  # E10
    probe = TestProbe(system)
    stage = await serve_page(system, ws=WebSocket(props(Reporter, probe.ref), max_message=100_000))
    async with browser.tab(url_of(stage)) as tab:
        ends = {"fail": 'socket.send("fail");', "too large": 'socket.send("x".repeat(100_001));'}
        script = OPEN.replace(', ["x", "chat"]', "") + ends.get(does, "") + "return closed;"
        closing = asyncio.create_task(tab.run(script))
        _, up = await probe.expect(tuple)
        match does:
            case "close":
                up.alias.tell(Write("x" * 100_000))
                up.alias.tell(Close(code=4002, text="enough ü"))
            case "stop the server":
                stage.alias.stop()
            case "abort":
                up.alias.tell(Close(abort=True))
        code, reason, was_clean = await closing
        assert [code, expected[1] if expected[1] is None else reason, was_clean] == expected


# -- requests


async def test_a_browser_reads_an_answer_while_it_is_made(system: ActorSystem, browser: Browser) -> None:  # E10
    read = [Event() for _ in range(3)]

    async def pieces() -> AsyncIterator[str]:
        for number, event in enumerate(read):
            yield f"piece {number}"
            await event.wait()  # the next is not made before this one has been read

    def confirm(asked: HttpRequest) -> None:
        read[int(asked.query["n"])].set()

    answer = system.spawn(Answer, lambda asked: HttpResponse(pieces()))
    stage = await serve_page(system, pieces=answer, read=system.spawn(Answer, confirm))
    async with browser.tab(url_of(stage)) as tab:
        script = """
                const response = await fetch("/pieces"), decoder = new TextDecoder(), found = [];
                for (const reader = response.body.getReader();;) {
                    const {done, value} = await reader.read();
                    if (done) return found;
                    found.push(decoder.decode(value));
                    const {status} = await fetch(`/read?n=${found.length - 1}`);
                    if (status !== 204) throw status;
                }
            """
        assert await tab.run(script) == ["piece 0", "piece 1", "piece 2"]


async def test_a_browser_hears_of_events(system: ActorSystem, browser: Browser) -> None:  # E10
    heard, ended = Event(), Event()

    async def events() -> AsyncIterator[str]:
        try:
            for number in range(3):
                yield f"event: tick\nid: {number}\ndata: {json.dumps({'n': number})}\n\n"
            await heard.wait()
            while True:
                yield ": a comment, by which the server learns that nobody is there any more\n\n"
                await asyncio.sleep(0)
        finally:
            ended.set()

    headers = {"content-type": "text/event-stream", "cache-control": "no-store"}
    stage = await serve_page(system, events=system.spawn(Answer, lambda _: HttpResponse(events(), headers=headers)))
    async with browser.tab(url_of(stage)) as tab:
        script = """
                const source = new EventSource("/events"), found = [];
                return new Promise((resolve, reject) => {
                    source.onerror = reject;
                    source.addEventListener("tick", ({data, lastEventId}) => {
                        found.push([JSON.parse(data).n, lastEventId]);
                        if (found.length === 3) { source.close(); resolve(found); }
                    });
                });
            """
        assert await tab.run(script) == [[0, "0"], [1, "1"], [2, "2"]]
        heard.set()
        await ended.wait()


async def test_a_browser_that_wants_no_more_of_an_answer_ends_it(system: ActorSystem, browser: Browser) -> None:  # E10
    ended = Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield bytes(10_000)
                await asyncio.sleep(0)
        finally:
            ended.set()

    stage = await serve_page(system, endless=system.spawn(Answer, lambda _: HttpResponse(endless())))
    async with browser.tab(url_of(stage)) as tab:
        script = """
                const control = new AbortController();
                const response = await fetch("/endless", {signal: control.signal});
                const {value} = await response.body.getReader().read();
                control.abort();
                return value.length > 0;
            """
        assert await tab.run(script)
        await ended.wait()


async def test_a_browser_uploads_what_it_has(system: ActorSystem, browser: Browser) -> None:  # E10
    async def size(asked: HttpRequest) -> dict[str, Any]:
        sizes = [len(piece) async for piece in asked.body]
        return {"size": sum(sizes), "type": asked.headers["content-type"].partition(";")[0]}

    stage = await serve_page(system, upload=Route(system.spawn(AsyncAnswer, size), stream=True))
    async with browser.tab(url_of(stage)) as tab:
        script = """
                const form = new FormData();
                form.append("file", new Blob([new Uint8Array(900_000)]), "name");
                const send = async body => (await fetch("/upload", {method: "POST", body})).json();
                const blob = new Blob([new Uint8Array(1_000_000)], {type: "a/b"});
                return [await send(blob), await send("text"), await send(form)];
            """
        blob, text, form = await tab.run(script)
    assert blob == {"size": 1_000_000, "type": "a/b"}
    assert text == {"size": 4, "type": "text/plain"}
    assert form["type"] == "multipart/form-data"
    assert form["size"] > 900_000


# -- the chat of the examples


async def shown(tab: Tab, text: str) -> None:
    """Wait until a line of the chat is on the page."""
    await tab.run(f"""
        const list = document.getElementById("said"), wanted = {json.dumps(text)};
        const is_there = () => [...list.children].some(({{textContent}}) => textContent === wanted);
        await new Promise(resolve => {{
            if (is_there()) return resolve();
            new MutationObserver(() => is_there() && resolve()).observe(list, {{childList: true}});
        }});
    """)


async def connected(tab: Tab, is_connected: bool) -> None:
    """Wait until the page says that it is, or is not, connected."""
    await tab.run(f"""
        const state = document.getElementById("state");
        const is_there = () => (state.textContent === "") === {json.dumps(is_connected)};
        await new Promise(resolve => {{
            if (is_there()) return resolve();
            new MutationObserver(() => is_there() && resolve()).observe(state, {{childList: true}});
        }});
    """)


async def say(tab: Tab, text: str) -> None:
    """Type a line, once the page is connected."""
    await tab.run("""
        if (socket.readyState === WebSocket.CONNECTING)
            await new Promise(resolve => socket.addEventListener("open", resolve));
        document.getElementById("text").focus();
    """)
    await tab.type(text)


async def test_what_one_types_in_the_chat_the_other_sees(system: ActorSystem, browser: Browser) -> None:  # E10
    chat = system.spawn(Chat, 0)
    await chat.started()
    host, port = (await chat.inspect("address"))["address"]
    async with browser.tab(f"http://{host}:{port}/") as ada:
        await say(ada, "/name Ada")
        await say(ada, "Is anybody here?")
        await shown(ada, "Ada: Is anybody here?")
        async with browser.tab(f"http://{host}:{port}/") as bob:
            await shown(bob, "Ada: Is anybody here?")  # he came later
            await say(bob, "/name Bob")
            await say(bob, "I am! <b>grüße</b> 🎭")
            for tab in (ada, bob):
                await shown(tab, "Bob: I am! <b>grüße</b> 🎭")  # as it was typed
            await say(ada, "Hello Bob")
            await shown(bob, "Ada: Hello Bob")
        await shown(ada, "Bob has left")


async def test_the_page_of_the_chat_comes_back_with_its_server(system: ActorSystem, browser: Browser) -> None:  # E10
    with held_port() as port:
        chat = system.spawn(Chat, port)
        await chat.started()
        async with browser.tab(f"http://127.0.0.1:{port}/") as ada:
            await say(ada, "before")
            chat.stop()
            await chat.terminated()
            await connected(ada, False)
            await system.spawn(Chat, port).started()
            await connected(ada, True)
            await say(ada, "/name Ada")
            await say(ada, "after")
            await shown(ada, "Ada: after")
