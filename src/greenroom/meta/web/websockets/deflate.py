"""permessage-deflate with a limit: a small message may become a huge one."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Any

from wsproto.extensions import PerMessageDeflate
from wsproto.frame_protocol import CloseReason, RsvBits

if TYPE_CHECKING:
    from wsproto.frame_protocol import Opcode

__all__ = ["BoundedDeflate"]

PARAMETER = re.compile(
    r"(?:(?:server|client)_no_context_takeover|client_max_window_bits"
    r"|(?:server|client)_max_window_bits\s*=\s*(?:9|1[0-5]))\Z"
)
"""What may be wished for. A window of 8 bits may be too, but zlib does not have it."""
END = b"\x00\x00\xff\xff"
"""What every message ends with, and is not sent."""


class BoundedDeflate(PerMessageDeflate):
    """wsproto's own packs. This unpacks: no further than to `limit` bytes a message, and with pings between its parts
    (wsproto takes the rest of such a message as if it were not packed)."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self._inflater: Any = None
        # Of the message that comes: how much it is by now, and whether it is packed; None between two of them.
        self._size = 0
        self._is_packed: bool | None = None
        self._is_control = False

    def accept(self, offer: str) -> bool | str | None:
        """What is agreed on, by the first offer that will do; None if this one will not."""
        if self.enabled() or not _is_proper(offer):
            return None
        return super().accept(offer)

    def frame_inbound_header(
        self, proto: Any, opcode: Opcode, rsv: RsvBits, payload_length: int
    ) -> CloseReason | RsvBits:
        """A frame begins. Called again if only part of its header had come."""
        self._is_control = opcode.iscontrol()
        if rsv.rsv1 and (self._is_control or opcode == 0):
            return CloseReason.PROTOCOL_ERROR
        if not self._is_control and self._is_packed is None:
            self._is_packed = rsv.rsv1
            if self._is_packed and self._inflater is None:
                bits = self.server_max_window_bits if proto.client else self.client_max_window_bits
                self._inflater = zlib.decompressobj(-int(bits))
        return RsvBits(True, False, False)

    def frame_inbound_payload_data(self, proto: Any, data: bytes) -> bytes | CloseReason:
        """Some of what it holds."""
        return data if self._is_control or not self._is_packed else self._inflate(data)

    def frame_inbound_complete(self, proto: Any, fin: bool) -> bytes | CloseReason | None:
        """It ends, and with `fin` the message does."""
        if self._is_control or not fin:
            return None
        is_packed, self._is_packed = self._is_packed, None
        if not is_packed:
            return None
        data = self._inflate(END)
        self._size = 0
        forgets = self.server_no_context_takeover if proto.client else self.client_no_context_takeover
        if forgets or self._inflater.eof:  # one that has seen the end of its stream unpacks nothing more
            self._inflater = None
        return data

    def _inflate(self, data: bytes) -> bytes | CloseReason:
        if self._inflater.eof:
            return b""  # zlib would keep what follows the end of its stream, however much that is
        try:
            unpacked: bytes = self._inflater.decompress(data, self._limit - self._size + 1)
        except zlib.error:
            return CloseReason.INVALID_FRAME_PAYLOAD_DATA
        self._size += len(unpacked)
        return CloseReason.MESSAGE_TOO_BIG if self._size > self._limit else unpacked


def _is_proper(offer: str) -> bool:
    """Whether all that an offer wishes for is known, and wished for once: else it must be declined."""
    wishes = [one.strip() for one in offer.split(";")[1:]]
    names = {one.partition("=")[0].strip() for one in wishes}
    return len(names) == len(wishes) and all(PARAMETER.match(one) for one in wishes)
