"""The actors of the chat: a room, and a session for each browser."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from greenroom import Actor, ActorRef, handles, props
from greenroom.meta import (
    Alias,
    Closed,
    HttpRequest,
    HttpResponse,
    Received,
    WebServer,
    WebSocket,
    WebSocketConnected,
    Write,
)

PAGE = Path(__file__).with_name("page.html").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Join:
    """A session is there."""

    session: ActorRef
    name: str


@dataclass(frozen=True)
class Say:
    """A line of the talk; without a name, the room says it."""

    text: str
    name: str | None = None


class Room(Actor[object]):
    """Tells everybody what anybody says, and those who come the last lines."""

    def __init__(self) -> None:
        self.sessions: dict[ActorRef, str] = {}
        self.last: list[Say] = []

    @handles(Join)
    def join(self, message: Join) -> None:
        """Admit a session, or rename one."""
        before = self.sessions.get(message.session)
        self.sessions[message.session] = message.name
        if before is None:
            self.ctx.watch(message.session)
            for said in self.last:
                message.session.tell(said)
            self.say(Say(f"{message.name} is here"))
        else:
            self.say(Say(f"{before} is {message.name} now"))

    @handles(Say)
    def say(self, message: Say) -> None:
        """Tell everybody."""
        self.last = [*self.last, message][-20:]
        for session in self.sessions:
            session.tell(message)

    def on_terminated(self, ref: ActorRef, cause: BaseException | None) -> None:
        """A session has ended: its browser is gone."""
        name = self.sessions.pop(ref, None)
        if name is not None:
            self.say(Say(f"{name} has left"))


class Session(Actor[object]):
    """One browser: it ends with its WebSocket."""

    def __init__(self, room: ActorRef) -> None:
        self.room = room
        self.alias: Alias | None = None

    @handles(WebSocketConnected)
    def begin(self, message: WebSocketConnected) -> None:
        """The browser is there."""
        self.alias = message.alias
        self.name = f"guest {self.ctx.self.id & 0xFFFF}"
        self.room.tell(Join(self.ctx.self, self.name))

    @handles(Received)
    def hear(self, message: Received) -> None:
        """The browser says something."""
        text = str(message.data).strip()[:1000]
        if text.startswith("/name "):
            self.name = text.removeprefix("/name ").strip()[:40]
            self.room.tell(Join(self.ctx.self, self.name))
        elif text:
            self.room.tell(Say(text, self.name))

    @handles(Say)
    def show(self, message: Say) -> None:
        """Tell the browser."""
        if self.alias is not None:
            self.alias.tell(Write(json.dumps({"from": message.name, "text": message.text})))

    @handles(Closed)
    def end(self, message: Closed) -> None:
        """The browser is gone."""


class Page(Actor[HttpRequest, HttpResponse]):
    """Answers with the page."""

    def receive(self, request: HttpRequest) -> HttpResponse:
        """Here it is."""
        return HttpResponse.html(PAGE)


class Chat(Actor[object]):
    """The web server, the room and the page."""

    def __init__(self, port: int) -> None:
        self.port = port

    def pre_start(self) -> None:
        """Open the room, and the doors."""
        room = self.ctx.spawn(Room, name="room")
        page = self.ctx.spawn(Page, name="page")
        routes = {"GET /": page, "/chat": WebSocket(props(Session, room))}
        self.server = WebServer(port=self.port, routes=routes)
        self.ctx.spawn_meta(self.server)

    def inspect(self, *items: str) -> dict[str, object]:
        """Where it listens."""
        return {"address": self.server.address}

    def receive(self, message: object) -> None:
        """There is nothing to be told."""
