"""LSP's base framing: a stream of bytes into bodies, and a body into a frame.

Owns headers, the size cap and how the stream is found again after noise.
Refuses to know JSON, and where bytes come from or go to.
"""

from __future__ import annotations

import re
from typing import TypeAlias

import msgspec

from treadle.errors import InvalidRequest, ParseError, ProtocolError

# A body larger than this is refused. A prompt with images in it stays far below, and one frame
# can not make the daemon larger than the machines it runs on.
MAX_FRAME_BYTES = 64 << 20

# A block of headers larger than this is noise: real ones have a hundred bytes.
MAX_HEADER_BYTES = 8 << 10

# A refused body up to this length is counted off. A longer one was announced by mistake and will
# never come, so counting would make the connection deaf; the next header is looked for instead.
MAX_COUNTED_BYTES = 1 << 30


class BadFrame(msgspec.Struct, frozen=True):
    """What stands in the place of a frame that could not be taken.

    Args:
        message: what was wrong and what to do about it.
        code: the JSON-RPC code to answer with, id null.
    """

    message: str
    code: int

    @property
    def error(self) -> ProtocolError:
        """The same as an error to raise or to reply with."""
        kind = InvalidRequest if self.code == InvalidRequest.code else ParseError
        return kind(self.message)


Frame: TypeAlias = bytes | BadFrame


def encode_frame(body: bytes) -> bytes:
    """Put the one header a peer needs before a body."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class FrameParser:
    """Finds the frames in a stream of bytes, however it is cut.

    A header name may be in any case and have spaces around it, lines may end with a bare LF,
    other headers are skipped, empty lines between frames too.
    Every byte is looked at once, and at most one body or one block of headers is stored.

    What is no header is noise. A stretch of noise is reported once, when it starts, and ends at
    the next line that ends with a `Content-Length: …`, even where noise is glued before it.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._frames: list[Frame] = []
        self._line = bytearray()
        self._header = _Header()
        self._is_noise = False
        self._body = bytearray()
        self._body_left = 0
        self._skip_left = 0

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next bytes of the stream.

        Args:
            data: what was read, cut anywhere.

        Returns:
            The frames that are complete now, in order; none while one is on its way.
        """
        position = 0
        while position < len(data):
            if self._body_left:
                position = self._take_body(data, position)
            elif self._skip_left:
                position = self._skip(data, position)
            else:
                position = self._take_line(data, position)
        frames, self._frames = self._frames, []
        return frames

    def _take_body(self, data: bytes, position: int) -> int:
        part = data[position : position + self._body_left]
        self._body_left -= len(part)
        if self._body_left or self._body:
            self._body += part
        if not self._body_left:
            self._frames.append(bytes(self._body) if self._body else part)
            self._body = bytearray()
        return position + len(part)

    def _skip(self, data: bytes, position: int) -> int:
        skipped = min(self._skip_left, len(data) - position)
        self._skip_left -= skipped
        return position + skipped

    def _take_line(self, data: bytes, position: int) -> int:
        """Take bytes up to the next line end, or a bounded part of a line that has none yet."""
        # Twice what a block may hold, so that cutting the front off stays linear in total.
        limit = position + 2 * MAX_HEADER_BYTES - len(self._line)
        end = data.find(b"\n", position, limit)
        if end >= 0:
            line = bytes(self._line) + data[position : end + 1]
            self._line.clear()
            self._end_line(line)
            return end + 1
        self._line += data[position:limit]
        if self._header.size_bytes + len(self._line) > MAX_HEADER_BYTES:
            self._noise(f"more than {MAX_HEADER_BYTES} bytes of headers")
        if len(self._line) >= 2 * MAX_HEADER_BYTES:
            del self._line[:-MAX_HEADER_BYTES]
        return min(limit, len(data))

    def _end_line(self, line: bytes) -> None:
        if line in (b"\n", b"\r\n"):
            self._end_header()
            return
        if self._is_noise:
            self._resynchronise(line)
            return
        if self._header.size_bytes + len(line) > MAX_HEADER_BYTES:
            self._noise(f"more than {MAX_HEADER_BYTES} bytes of headers")
            self._resynchronise(line)
        elif not self._header.take(line):
            self._noise("bytes that are no header")
            self._resynchronise(line)

    def _resynchronise(self, line: bytes) -> None:
        """End the noise where a line ends with a length, whatever stands before it."""
        if (glued := _GLUED_LENGTH.match(line)) is not None:
            self._is_noise = False
            self._header.take(glued[1])

    def _end_header(self) -> None:
        header, self._header = self._header, _Header()
        # Empty lines in noise end nothing; between frames they do no harm.
        if self._is_noise or not header.size_bytes:
            return
        if header.glued is not None and not header.lengths:
            self._noise("bytes that are no header")
            self._is_noise = False
            header.lengths.append(header.glued)
        if (length := header.length) is None:
            self._noise(header.problem)
        elif length > MAX_COUNTED_BYTES:
            self._refuse(length)
            self._is_noise = True
        elif length > self._max_frame_bytes:
            self._refuse(length)
            self._skip_left = length
        elif length:
            self._body_left = length
        else:
            self._frames.append(b"")

    def _refuse(self, length: int) -> None:
        message = (
            f"a frame may hold {self._max_frame_bytes} bytes and this one announced {length}; "
            "it is skipped: send large content by path, or in parts"
        )
        self._frames.append(BadFrame(message, InvalidRequest.code))

    def _noise(self, problem: str) -> None:
        """Enter a stretch of noise, and report it unless it is the one we are in."""
        if not self._is_noise:
            message = (
                f"where a frame should start: {problem}; "
                "send `Content-Length: <bytes of the body>`, an empty line, then the body"
            )
            self._frames.append(BadFrame(message, ParseError.code))
        self._is_noise = True
        self._header = _Header()


class _Header:
    """A block of headers while its lines come in."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self.lengths: list[bytes] = []
        self.glued: bytes | None = None

    def take(self, line: bytes) -> bool:
        """Take a line; False when it is no header."""
        if (match := _HEADER.match(line)) is None:
            return False
        self.size_bytes += len(line)
        if match[1].lower() == b"content-length":
            self.lengths.append(match[2].strip())
        elif (glued := _GLUED_LENGTH.match(line)) is not None:
            # `X-Content-Length`, or noise without a line end before the real one: it counts
            # when the block has no better.
            self.glued = glued[2].strip()
        return True

    @property
    def length(self) -> int | None:
        """The length all lines agree on; None when there is none to be read."""
        if self.problem:
            return None
        return int(self.lengths[0])

    @property
    def problem(self) -> str:
        """Why there is no length; empty when there is one."""
        if not self.lengths:
            return "headers without a Content-Length"
        if any(_DIGITS.fullmatch(length) is None for length in self.lengths):
            return "a Content-Length that is no count of bytes"
        if len({int(length) for length in self.lengths}) > 1:
            return "two Content-Lengths that differ"
        return ""


# RFC 9110's token as a name, then anything as a value. Nothing in it backtracks.
_HEADER = re.compile(rb"[ \t]*+([!#$%&'*+\-.^_`|~0-9A-Za-z]++)[ \t]*+:([^\r\n]*+)\r?\n")

# The last length of a line: noise may hold the name too.
_GLUED_LENGTH = re.compile(
    rb".*(content-length[ \t]*+:([^\r\n]*+)\r?\n)", re.IGNORECASE | re.DOTALL
)

# Eighteen digits are an exabyte; more of them are nothing that should be handed to `int`.
_DIGITS = re.compile(rb"0*+[0-9]{1,18}|0++")
