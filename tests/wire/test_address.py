"""Addresses: what is left of a ref when it travels."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.errors import BadArgument
from greenroom.wire.address import ActorAddress

NAMES = st.text(st.characters(exclude_characters="/$#", exclude_categories=["Cs"]), min_size=1, max_size=10)


@given(NAMES.filter(lambda name: "/" not in name), st.integers(0, 1 << 62), st.lists(NAMES, min_size=1, max_size=4))
def test_an_address_is_its_text_and_back(system: str, number: int, names: list[str]) -> None:
    address = ActorAddress(f"{system}@1.1", number, "/" + "/".join(names))
    assert ActorAddress.parse(str(address)) == address
    assert pickle.loads(pickle.dumps(address)) == address
    assert address.name == names[-1]
    assert address.above == "".join(f"/{name}" for name in names[:-1])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "shop/orders#1",
        "greenroom://shop#1",
        "greenroom:///orders#1",
        "greenroom://shop/orders",
        "greenroom://a/b#x",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadArgument, match="is no address"):
        ActorAddress.parse(text)
