"""The order of messages, with actors in worker processes."""

from __future__ import annotations

from typing import Any

from greenroom import (
    Lane,
    MailboxConfig,
)
from greenroom.testing import TestProbe
from tests.system.dispatchers.processes.cast import (
    AsyncPuppet,
    Bag,
    Bouncer,
    Endless,
    Puppet,
    Watcher,
    all_of,
    call,
    do,
)
from tests.system.dispatchers.processes.conformance.stage import BAD, STOPS, Ear, away, held, stage


async def test_each_of_64_senders_keeps_its_order() -> None:  # case 1
    async with stage() as system:
        far, near = away(system, Bag), system.spawn(Bag)
        senders = [system.spawn(Puppet, dispatcher=place) for place in (None, "process") for _ in range(32)]
        for first in range(0, 20, 5):
            for who, sender in enumerate(senders):
                words = [call(bag, "tell", (who, n)) for n in range(first, first + 5) for bag in (far, near)]
                sender.tell(all_of(*words))
        await system.settle()
        for bag in (far, near):
            seen = await bag.ask("seen")
            assert len(seen) == 64 * 20
            for who in range(64):
                assert [n for sender, n in seen if sender == who] == list(range(20))


async def test_a_message_of_a_higher_lane_comes_next_in_a_flood() -> None:  # case 2
    async with stage() as system:
        ref, gate, heard = await held(system)
        for n in range(50):
            ref.tell(n)
        for lane in (Lane.LOG, Lane.MANAGEMENT, Lane.CONTROL):
            ref.tell(str(lane), lane=lane)
        gate.open()
        await system.settle()
        assert heard == [str(Lane.CONTROL), str(Lane.MANAGEMENT), *range(50), str(Lane.LOG)]


async def test_control_that_arrives_in_a_running_flood_is_handled_after_the_message_in_hand() -> None:  # case 2
    async with stage() as system:
        for at in (0, 70):
            heard: list[Any] = []
            ref = away(system, AsyncPuppet, system.spawn(Ear, heard))
            hurrier = system.spawn(Puppet)
            urgent = call(hurrier, "ask", call(ref, "tell", "urgent", lane=Lane.CONTROL))
            for n in range(200):
                ref.tell(urgent if n == at else n)
            await system.settle()
            assert heard.index("urgent") == at
            heard.remove("urgent")
            assert heard == [n for n in range(200) if n != at]


async def test_every_64th_pick_serves_a_lower_lane() -> None:  # case 3
    async with stage() as system:
        ref, gate, heard = await held(system)
        for message, lane in (("log", Lane.LOG), ("data", Lane.DATA), ("management", Lane.MANAGEMENT)):
            ref.tell(message, lane=lane)
        for _ in range(64 * 3):
            ref.tell("flood", lane=Lane.CONTROL)
        gate.open()
        await system.settle()
        assert [heard.index(message) for message in ("log", "data", "management")] == [63, 127, 191]


async def test_data_moves_under_a_control_flood_that_never_ends() -> None:  # case 3
    async with stage() as system:
        ref = away(system, Endless, Lane.CONTROL, 4)
        for n in range(4):
            ref.tell(n)
        for _ in range(3):
            ref.tell("flood", lane=Lane.CONTROL)
        await system.settle()
        heard = await ref.ask("heard")
        assert [one for one in heard if one != "flood"] == [0, 1, 2, 3]


async def test_the_smallest_key_comes_first_and_equal_keys_in_order() -> None:  # case 4, M15
    def key(message: Any) -> int:
        return message[0] if isinstance(message, tuple) else -1

    async with stage() as system:
        ref, gate, heard = await held(system, mailbox=MailboxConfig(priority=key))
        sent = [(number % 3, number) for number in range(60)]
        for message in sent:
            ref.tell(message)
        ref.tell("urgent", lane=Lane.CONTROL)
        gate.open()
        await system.settle()
        assert heard == ["urgent", *sorted(sent)]


async def test_a_third_actor_is_served_while_two_keep_each_other_busy() -> None:  # case 5: a third runs
    async with stage(max_msgs_per_actor=10) as system:
        probe = TestProbe(system)
        one, two, third = away(system, Bouncer, probe.ref), away(system, Bouncer, probe.ref), away(system, Bag)
        one.tell((300, two))
        for n in range(20):
            assert await third.ask(("n", n)) is None
        await probe.expect(tuple)


async def test_a_childs_message_is_handled_before_the_notice_of_its_death() -> None:  # case 6
    async with stage() as system:
        heard: list[Any] = []
        parent = away(system, Watcher, system.spawn(Ear, heard))
        for place in (None, "process"):
            child = await parent.ask(do("spawn", Puppet, supervision=STOPS, dispatcher=place))
            await parent.ask(do("watch", child))
            child.tell(all_of(call(parent, "tell", "m"), BAD))
            await child.terminated()
            await system.settle()
            notice = ("terminated", child, repr(BAD))
            assert heard == ["m", notice, ("child terminated", child, repr(BAD))]
            heard.clear()


async def test_a_self_send_is_handled_later_and_never_recursively() -> None:  # case 7
    async with stage() as system:
        probe = TestProbe(system)
        one, two = away(system, Bouncer, probe.ref), away(system, Bouncer, probe.ref)
        one.tell((1_500, None))
        assert await probe.receive(timeout=120.0) == ("deepest", 1)
        one.tell((200, two))
        assert await probe.receive(timeout=120.0) == ("deepest", 1)
        heard: list[Any] = []
        ref = away(system, Puppet, system.spawn(Ear, heard))
        for message in (all_of(do("self.tell", "to myself"), call(two, "tell", (0, None))), "queued", "and this"):
            ref.tell(message)
        await system.settle()
        assert heard == ["queued", "and this", "to myself"]
