"""Sockets and programs for meta-processes: those of the machine, or of a simulation. Only here is it decided which."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from greenroom.meta.ports.program import Program
from greenroom.meta.simulated.network import SimulatedListener, SimulatedPackets, network_of
from greenroom.meta.simulated.program import SimulatedProgram, programs_of
from greenroom.meta.sockets.bound import Listener, Packets

if TYPE_CHECKING:
    import socket

    from greenroom._core.scheduler.loop import Loop

Address = tuple[str, int] | str
"""A host and a port, or the path of a Unix socket."""


def bind(
    loop: Loop, where: Address, make_socket: Callable[[], socket.socket], backlog: int
) -> Listener | SimulatedListener:
    """Bind `where`, on the machine with the socket that `make_socket()` returns. No connection is taken yet."""
    network = network_of(loop)
    return Listener(make_socket(), where, backlog) if network is None else SimulatedListener(network, where)


async def connect(loop: Loop, where: Address, make: Callable[[], Any], tls: dict[str, Any]) -> None:
    """Connect to `where`, with `make()` as the protocol. `tls` has asyncio's options for a secured connection."""
    network = network_of(loop)
    if network is not None:
        await network.connect(where, make)
    elif isinstance(where, str):
        await asyncio.get_running_loop().create_unix_connection(make, where, **tls)
    else:
        await asyncio.get_running_loop().create_connection(make, *where, **tls)


def bind_packets(
    loop: Loop,
    where: tuple[str, int],
    make_socket: Callable[[], socket.socket],
    received: Callable[[bytes, Any], object],
    failed: Callable[[Exception], object],
) -> Packets | SimulatedPackets:
    """Bind `where` for UDP packets. `received` is called with each, and the address that it comes from."""
    network = network_of(loop)
    return Packets(make_socket(), received, failed) if network is None else SimulatedPackets(network, where, received)


def start_program(loop: Loop, command: Any, **options: Any) -> Program | SimulatedProgram:
    """Start a program, with the options of `Program`."""
    programs = programs_of(loop)
    return Program(command, **options) if programs is None else programs.start(command, **options)
