"""The states of an actor's life, and the only ways from one to the next (M1)."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import ActorSystem, State, SystemConfig
from tests.actor.diaries import AsyncDiary, Diary, flavours

C, G, R, S, D, F, A, T = (
    State.CREATED,
    State.STARTING,
    State.RUNNING,
    State.STOPPING,
    State.STOPPED,
    State.FAILED,
    State.RESTARTING,
    State.TERMINATED,
)

ALLOWED = {
    C: {G, T},
    G: {R, F, S},
    R: {S, F, A},
    F: {R, A, S, T},
    A: {G, F, S},
    S: {D},
    D: {A, T},
    T: set(),
}


@pytest.mark.parametrize("before", list(State))
@pytest.mark.parametrize("after", list(State))
def test_the_table_of_transitions(before: State, after: State) -> None:
    assert before.may_become(after) == (after in ALLOWED[before])


def test_there_are_no_other_states() -> None:
    assert set(State) == set(ALLOWED)


def is_a_life(history: tuple[State, ...], killed: bool = False) -> bool:
    """Begins, ends, and takes only allowed steps; a kill may go from anywhere to TERMINATED."""
    steps = all(b in ALLOWED[a] or (killed and b is T) for a, b in pairwise(history))
    return steps and history[0] is C and history[-1] is T


@flavours
@pytest.mark.parametrize(
    ("trouble", "act", "expected"),
    [
        ("", "stop", (C, G, R, S, D, T)),
        ("bad", "tell", (C, G, R, F, S, D, T)),
        ("", "fail", (C, G, R, F, S, D, T)),
        ("pre_start", "", (C, G, F, S, D, T)),
        ("post_start", "", (C, G, F, S, D, T)),
        ("pre_stop", "stop", (C, G, R, S, D, T)),
        ("post_stop", "stop", (C, G, R, S, D, T)),
        ("", "kill", (C, G, R, T)),
    ],
)
@pytest.mark.config(history=True)
async def test_the_history_of_a_life(
    system: ActorSystem, diary: type[Diary], trouble: str, act: str, expected: tuple[State, ...]
) -> None:
    ref = system.spawn(diary, [], trouble)
    if act:
        await ref.started()
    if act == "stop":
        ref.stop()
    elif act == "kill":
        ref.kill()
    elif act == "fail":
        ref.fail(ValueError("x"))
    elif act == "tell":
        ref.tell("bad")
    await ref.terminated()
    assert ref.history == expected
    assert ref.state is T


ACTS = ["stop", "after_queued", "kill", "fail", "tell", "bad", "turn", "thread"]


@pytest.mark.parametrize("kind", [Diary, AsyncDiary])
@settings(max_examples=40, deadline=None)
@given(
    acts=st.lists(st.sampled_from(ACTS), max_size=8),
    trouble=st.sampled_from(["", "pre_start", "pre_stop", "post_stop"]),
)
def test_whatever_is_done_to_an_actor_it_takes_only_allowed_steps(
    kind: type[Diary], acts: list[str], trouble: str
) -> None:
    async def main() -> None:
        async with asyncio.timeout(120.0), ActorSystem("test", config=SystemConfig(history=True)) as system:
            ref = system.spawn(kind, [], trouble)
            for act in acts:
                if act == "turn":
                    await asyncio.sleep(0)
                elif act == "after_queued":
                    ref.stop(after_queued=True)
                elif act == "fail":
                    ref.fail(ValueError("x"))
                elif act == "thread":
                    await asyncio.to_thread(ref.stop)
                elif act in ("tell", "bad"):
                    ref.tell(act)
                else:
                    getattr(ref, act)()
            ref.stop()
            await ref.terminated()
            assert is_a_life(ref.history, "kill" in acts), ref.history

    asyncio.run(main())
