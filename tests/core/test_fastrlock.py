"""The gate: one thread inside at a time, which may go in again."""

import threading

import pytest

from greenroom._core.delivery.inbound import FastRLock


def test_its_holder_may_go_in_again_and_leaves_as_often() -> None:
    gate, inside = FastRLock(), threading.Event()

    def follow() -> None:
        with gate:
            inside.set()

    follower = threading.Thread(target=follow)
    with gate:
        with gate:
            follower.start()
        assert not inside.wait(0.05), "one leave for two enters must keep the others out"
    assert inside.wait(120)
    follower.join(120)


def test_it_is_left_when_what_happens_inside_raises() -> None:
    gate, inside = FastRLock(), threading.Event()

    def follow() -> None:
        with gate:
            inside.set()

    with pytest.raises(ValueError, match="inside"), gate:
        raise ValueError("inside")
    follower = threading.Thread(target=follow)
    follower.start()
    assert inside.wait(120)
    follower.join(120)


def test_eight_threads_never_stand_inside_together() -> None:
    gate, visits, crowds = FastRLock(), [0], list[int]()
    inside = [0]

    def visit() -> None:
        for _ in range(500):
            with gate:
                inside[0] += 1
                crowds.append(inside[0])
                visits[0] += 1
                inside[0] -= 1

    threads = [threading.Thread(target=visit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert (visits, set(crowds)) == ([4000], {1})
