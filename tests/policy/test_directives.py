"""The words of supervision: two names for one scope, and values that stay themselves in another process."""

from __future__ import annotations

import copy
import pickle
from enum import Enum

import pytest

from greenroom.policy.children import AutoShutdown, Restart, Shutdown
from greenroom.policy.directives import Directive, OnRestart, Scope

WORDS = [word for words in (AutoShutdown, Directive, OnRestart, Restart, Scope, Shutdown) for word in words]


def test_all_for_one_is_one_for_all() -> None:  # M7
    assert Scope["ALL_FOR_ONE"] is Scope["ONE_FOR_ALL"]
    assert list(Scope) == [Scope.ONE_FOR_ONE, Scope.ONE_FOR_ALL, Scope.REST_FOR_ONE]


@pytest.mark.parametrize("word", WORDS, ids=str)
def test_a_word_pickles_and_copies_to_itself(word: Enum) -> None:
    assert pickle.loads(pickle.dumps(word)) is word
    assert copy.deepcopy(word) is word


@pytest.mark.parametrize("word", WORDS, ids=str)
def test_a_word_can_be_written_in_a_file_of_settings(word: Enum) -> None:
    assert type(word)(word.name.lower()) is word
