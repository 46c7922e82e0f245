"""What tests of dispatchers have in common."""

from __future__ import annotations

import pytest

from greenroom import Supervision
from tests.conftest import Play


@pytest.fixture
def play() -> Play:
    """Runs a program in a system as users have it: actors that fail are restarted."""
    return Play("asyncio", supervision=Supervision())
