"""The table of a life: whatever happens to an actor, and in whatever order, it lives as M1 says, and ends once."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom import State
from greenroom.actor.life.machine import TABLE, Action, Event, Row
from greenroom.actor.records.states import COMES_BACK, GOES_DOWN, Stage

# What follows by itself from an action, and is not told from outside.
INNER = (Event.STARTED, Event.LEFT, Event.ALONE, Event.DONE)
ROWS = list(TABLE.items())
# Actions at which a row may have to wait: for a hook, or for children.
HOOKS = (Action.PRE_START, Action.POST_START, Action.PRE_STOP, Action.PRE_RESTART, Action.POST_STOP)
CHILDREN = (Action.END_CHILDREN, Action.KILL_CHILDREN)


class Life:
    """One actor that goes by the table, with what has been done to it."""

    def __init__(self) -> None:
        self.stage = Stage.CREATED
        self.state: State = State.CREATED
        self.done: list[Action] = []
        # What it waits for: the rest of a row, or the end of its children.
        self.waits: Row | None = None
        self.has_children = False
        self.history = [State.CREATED]

    def take(self, event: Event, waits: bool) -> None:
        """Carry out what `event` leads to; with `waits`, the first hook or child on the way takes its time."""
        row = TABLE.get((self.stage, event))
        while row is not None:
            self._enter(row.stage)
            for number, action in enumerate(row.actions):
                self.done.append(action)
                if action in CHILDREN and (self.has_children or waits):
                    self.has_children = True
                    return
                if action in HOOKS and waits:
                    self.waits = row._replace(actions=row.actions[number + 1 :])
                    return
            row = None if row.then is None else TABLE.get((self.stage, row.then))

    def go_on(self, breaks_off: bool) -> None:
        """The hook that is awaited has ended, or is abandoned; or the last child has ended."""
        rest, self.waits = self.waits, None
        if rest is not None and breaks_off:
            self.take(Event.BROKEN_OFF, False)
        elif rest is not None:
            self.done += rest.actions
            if rest.then is not None:
                self.take(rest.then, False)
        elif self.has_children:
            self.has_children = False
            self.take(Event.ALONE, False)

    def _enter(self, stage: Stage) -> None:
        self.stage = stage
        if stage.state is not None and stage.state is not self.state:
            self.state = stage.state
            self.history.append(stage.state)

    @property
    def has_ended(self) -> bool:
        return Action.FINISH in self.done


lives = st.lists(st.tuples(st.sampled_from([event for event in Event if event not in INNER]), st.booleans()))


def live(events: list[tuple[Event, bool]]) -> Life:
    life = Life()
    for event, waits in events:
        if life.waits is not None:  # orders wait for the hook in hand
            life.go_on(breaks_off=event is Event.BROKEN_OFF)
        elif life.has_children and event in (Event.START, Event.FAIL):
            life.go_on(breaks_off=False)
        if event is not Event.BROKEN_OFF:
            life.take(event, waits)
    return life


@pytest.mark.parametrize(("at", "row"), ROWS, ids=[f"{stage.name}-{event.name}" for (stage, event), _ in ROWS])
def test_a_row_leads_only_where_the_states_may_lead(at: tuple[Stage, Event], row: Row) -> None:
    before, after = at[0].state, row.stage.state
    if before is None or after is None or before is after:
        return  # a kill leads from anywhere to the end
    between = {(State.STARTING, State.RESTARTING): State.FAILED, (State.STOPPING, State.RESTARTING): State.STOPPED}
    states = [before, *([between[before, after]] if (before, after) in between else []), after]
    assert after is State.TERMINATED or all(one.may_become(other) for one, other in pairwise(states))


@given(lives)
def test_whatever_happens_an_actor_can_be_ended(events: list[tuple[Event, bool]]) -> None:
    life = live(events)
    for _ in range(4):  # the hook in hand, the kill, its children, `post_stop`
        life.go_on(breaks_off=False)
        life.take(Event.KILL, False)
    assert life.has_ended


@given(lives)
def test_nothing_happens_after_the_end(events: list[tuple[Event, bool]]) -> None:
    life = live(events)
    if life.has_ended:
        assert life.done[-1] is Action.FINISH
        assert life.done.count(Action.FINISH) == 1
        assert not any((life.stage, event) in TABLE for event in Event)


@given(lives)
def test_each_incarnation_is_bidden_farewell_at_most_once(events: list[tuple[Event, bool]]) -> None:
    incarnations: list[Counter[Action]] = [Counter()]
    for action in live(events).done:
        if action is Action.MAKE:
            incarnations.append(Counter())
        incarnations[-1][action] += 1
    for done in incarnations:
        assert max(done[Action.PRE_STOP] + done[Action.PRE_RESTART], done[Action.POST_STOP], done[Action.RENEW]) <= 1


@given(lives)
def test_the_mailbox_closes_once_before_the_end_and_is_drained_after_that(events: list[tuple[Event, bool]]) -> None:
    life = live(events)
    assert life.done.count(Action.CLOSE) <= 1
    if life.has_ended:
        assert Action.DRAIN in life.done[life.done.index(Action.CLOSE) :]


@given(lives)
def test_an_actor_that_rests_keeps_its_mailbox_and_is_made_again(events: list[tuple[Event, bool]]) -> None:
    done = live(events).done
    for number, action in enumerate(done):
        if action is Action.REST:
            assert Action.DISCARD in done[:number]
            assert Action.CLOSE not in done[:number]
            assert done[number + 1 : number + 2] in ([], [Action.RENEW], [Action.CLOSE])


def stages(event: Event) -> set[str]:
    return {stage.name for stage in Stage if (stage, event) in TABLE}


ENDED = {"STOPPED", "TERMINATED"}
ENDS = {"STOPPING", "STOPPING_CHILDREN", "STOPPING_POST_STOP", "KILLED_CHILDREN", "KILLED_POST_STOP"}


@pytest.mark.parametrize(
    ("event", "where"),
    [
        (Event.START, {"CREATED", "RESTING"}),
        (Event.FAIL, {"STARTING", "RUNNING", "WILL_STOP"}),
        (Event.RESTART, {"STARTING", "RUNNING", "WILL_RESTART"}),
        (Event.STOP, {stage.name for stage in Stage} - ENDED - ENDS),
        (Event.KILL, {stage.name for stage in Stage} - ENDED - {"STOPPING_POST_STOP", "KILLED_POST_STOP"}),
    ],
)
def test_an_order_means_something_only_where_it_can_be_carried_out(event: Event, where: set[str]) -> None:
    assert stages(event) == where


def test_one_that_comes_back_is_on_its_way_down_or_about_to_be() -> None:
    assert [stage.name for stage in Stage if COMES_BACK[stage] and not GOES_DOWN[stage]] == ["WILL_RESTART"]
