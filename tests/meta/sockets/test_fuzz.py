"""Whatever a peer sends: frames, or a clear end; the server goes on, and nothing is left open (R7, E10)."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from greenroom import ActorSystem
from greenroom.meta import Connected, Fixed, Framing, LengthPrefixed, Lines, Raw, Write
from tests.meta.framings import all_framings
from tests.meta.owners import Echo, Heard, Scene, all_told, emptied, hear, serve
from tests.meta.peers import Peer, connect

pytestmark = pytest.mark.usefixtures("no_memory_is_left")


ENDS = {"eof", "reset", "truncated", "frame too large", "bad frame"}
SEEDS = range(25)


def good_frames(framing: Framing, chance: random.Random) -> list[Any]:
    if isinstance(framing, Fixed):
        return [chance.randbytes(framing.size) for _ in range(chance.randrange(5))]
    text = isinstance(framing, Lines) and framing.encoding is not None
    sizes = [chance.randrange(1, 10) for _ in range(chance.randrange(5))]
    frames = [bytes(chance.choice(b"abcxyz") for _ in range(size)) for size in sizes]
    return [frame.decode() for frame in frames] if text else list(frames)


def stream_of(framing: Framing, chance: random.Random) -> tuple[list[Any], bytes]:
    """Good frames, and after them rubbish of one kind or another."""
    frames = good_frames(framing, chance)
    stream = b"".join(framing.encode(frame) for frame in frames)
    kind = chance.randrange(4)
    if kind == 0:
        stream += chance.randbytes(chance.randrange(300))
    elif kind == 1:
        more = b"".join(framing.encode(frame) for frame in good_frames(framing, chance))
        stream += more[: chance.randrange(len(more) + 1)]  # cut off somewhere
    elif kind == 2:
        stream += b"\xff" * chance.randrange(1, 200)  # too large, whatever the framing
    return frames, stream


async def send_cut(peer: Peer, stream: bytes, chance: random.Random) -> None:
    """In pieces, slowly, down to single bytes; until it is closed."""
    largest = chance.choice([1, 3, 50, 1000])
    try:
        while stream:
            size = chance.randrange(largest) + 1
            await peer.send(stream[:size])
            stream = stream[size:]
            await asyncio.sleep(0)
    except ConnectionError:
        pass


@all_framings
async def test_whatever_comes_there_are_frames_and_a_clear_end(
    system: ActorSystem, framing: Framing
) -> None:  # R7, E10
    for seed in SEEDS:
        chance = random.Random(seed)
        scene = Scene(system)
        server, alias = await serve(scene, framing=framing)
        frames, stream = stream_of(framing, chance)
        with await connect(server.address) as peer:
            up = await hear(scene, Connected)
            await send_cut(peer, stream, chance)
            if chance.random() < 0.3:
                peer.reset()
            else:
                peer.sock.close()
        told, closed = await all_told(scene)
        assert closed.reason in ENDS, seed
        if closed.reason != "reset":  # which takes along what has not been read
            if isinstance(framing, Raw):
                assert b"".join(told) == stream, seed
            else:
                assert told[: len(frames)] == frames, seed
        await up.alias.terminated()
        assert alias.is_alive
        scene.owner.stop()
        await scene.owner.terminated()
    assert system.dead_letters.count == 0


@all_framings
async def test_a_server_that_is_fed_rubbish_still_serves_others(
    system: ActorSystem, framing: Framing
) -> None:  # R7, E10
    async def rubbish(address: Any, chance: random.Random) -> None:
        for _ in range(5):
            try:
                with await connect(address) as peer:
                    await send_cut(peer, stream_of(framing, chance)[1], chance)
                    if chance.random() < 0.5:
                        peer.end()
                        await peer.cut_off()
                    elif chance.random() < 0.5:
                        peer.reset()
            except OSError:  # it was closed before: that is what this is about
                pass

    scene = Scene(system)
    server, alias = await serve(scene, handler=Echo, framing=framing)
    feeding = [asyncio.create_task(rubbish(server.address, random.Random(seed))) for seed in range(8)]
    word = framing.encode("seven!!" if isinstance(framing, Lines) and framing.encoding else b"seven!!")
    for _ in range(20):
        with await connect(server.address) as good:
            await good.send(word)
            assert await good.read(len(word)) == word
    await asyncio.gather(*feeding)
    await emptied(alias)
    await system.settle()
    assert system.actors() == [scene.probe.ref, scene.owner, alias]


@all_framings
async def test_single_bytes_are_as_good_as_a_stream(system: ActorSystem, framing: Framing) -> None:  # R7, E10
    scene = Scene(system)
    server, _ = await serve(scene, framing=framing)
    frames = [frame for seed in range(10) for frame in good_frames(framing, random.Random(seed))]
    stream = b"".join(framing.encode(frame) for frame in frames)
    with await connect(server.address) as peer:
        await hear(scene, Connected)
        for place in range(len(stream)):
            await peer.send(stream[place : place + 1])
            await asyncio.sleep(0)
    told, closed = await all_told(scene)
    assert closed.reason == "eof"
    if isinstance(framing, Raw):
        assert b"".join(told) == stream
    else:
        assert told == frames


async def test_messages_of_all_kinds_at_any_time_do_no_harm(system: ActorSystem) -> None:  # R7, E10
    """An owner that writes, closes and hands on at random, while its peers come and go."""
    chance = random.Random(7)
    scene = Scene(system)
    server, alias = await serve(scene, framing=LengthPrefixed(1), half_open=True, linger=0)
    up: list[Any] = []
    peers: list[Peer] = []
    for _ in range(400):
        act = chance.randrange(6)
        if act == 0:
            peers.append(await connect(server.address))
        elif act == 1 and peers:
            peer = peers.pop(chance.randrange(len(peers)))
            peer.reset() if chance.random() < 0.5 else peer.sock.close()
        elif act == 2 and peers:
            chance.choice(peers).send_some(b"\x01x" * chance.randrange(50))
        elif up:
            chance.choice(up).tell(chance.choice([Write(b"x" * 200), Write(b"x" * 300), "nonsense", None]))
        up += [heard.message.alias for heard in scene.probe.messages if _is_connected(heard)]
        while scene.probe.messages:
            await scene.probe.receive()
        await asyncio.sleep(0)
    for peer in peers:
        peer.sock.close()
    alias.stop()
    await alias.terminated()
    await system.settle()
    assert scene.owner.is_alive
    assert system.actors() == [scene.probe.ref, scene.owner]


def _is_connected(heard: Any) -> bool:
    return isinstance(heard, Heard) and isinstance(heard.message, Connected)
