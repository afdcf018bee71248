"""A text that is too long: its beginning, its end, and one line for what was between them.

Owns that line, and that a text which is cut once more goes on telling all that is missing, and
where the whole of it is. Refuses to know windows and conversations.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

from treadle.thread.history import MARK
from treadle.thread.message import Message

# Where the whole of a message always is, whatever became of it in a view.
IN_SESSION = "session/read"


@dataclass(frozen=True, slots=True)
class Cut:
    """A text in two halves, and what is missing between them.

    Args:
        head: how it begins.
        tail: how it ends.
        characters: how many are missing.
        attachments: which attachments are, in words; empty where none are.
        where: where the whole of it is; empty as long as nothing is missing.
    """

    head: str
    tail: str = ""
    characters: int = 0
    attachments: str = ""
    where: str = ""

    @classmethod
    def of(cls, message: Message, was_rewritten: bool) -> Cut:
        """Read a message.

        Args:
            message: as a model sees it.
            was_rewritten: a compaction did so; only then what looks like its words is its words.
        """
        text = message.text
        found = _LINE.search(text) if was_rewritten else None
        if found is None:
            return cls(text, attachments=attachments_in_words(message))
        return cls(
            text[: found.start()].removesuffix("\n"),
            text[found.end() :].removeprefix("\n"),
            int(found["characters"] or 0),
            found["attachments"] or "",
            found["where"],
        )

    @property
    def whole_characters(self) -> int:
        """How long the text was before anything of it was missing."""
        return len(self.head) + len(self.tail) + self.characters

    @property
    def text(self) -> str:
        """The text as a model is to see it."""
        return "\n".join(filter(None, (self.head, self._line, self.tail)))

    def shortened(self, characters: int, where: str) -> Cut:
        """Leave out so much from the middle that the text fits, as far as that goes.

        Args:
            characters: how long `text` may be.
            where: where the whole is, unless that is said already.
        """
        there = replace(self, where=self.where or where)
        if len(there.text) <= characters:
            return there
        if not there.tail:
            half = len(there.head) // 2
            there = replace(there, head=there.head[:half], tail=there.head[half:])
        # Its figure has as many digits as it will ever have.
        longest = replace(there, head="", tail="", characters=self.whole_characters)
        room = max(characters - len(longest.text) - len("\n\n"), 0)
        head = there.head[: max(room - room // 2, room - len(there.tail))]
        kept = room - len(head)
        tail = there.tail[max(len(there.tail) - kept, 0) :]
        missing = self.whole_characters - len(head) - len(tail)
        return replace(there, head=head, tail=tail, characters=missing)

    @property
    def _line(self) -> str:
        missing = [f"{self.characters} characters"] if self.characters else []
        missing += [self.attachments] if self.attachments else []
        if not missing:
            return ""
        return f"{MARK}left out {' and '.join(missing)} here; the whole of it is in {self.where}]"


def attachments_in_words(message: Message) -> str:
    """Say what of a message is no text: `2 images and 1 file`; nothing where all of it is."""
    if isinstance(message.content, str):
        return ""
    kinds = Counter(
        _KINDS.get(str(block.get("type")), "attachment")
        for block in message.content
        if block.get("type") != "text"
    )
    return " and ".join(f"{count} {kind}{'s'[: count > 1]}" for kind, count in kinds.items())


_KINDS = {"image": "image", "audio": "recording", "resource": "file"}
_LINE = re.compile(
    "^"
    + re.escape(MARK)
    + r"left out (?:(?P<characters>\d+) characters)?(?: and )?(?P<attachments>[a-z0-9 ]*?)"
    + r" here; the whole of it is in (?P<where>.+)\]$",
    re.MULTILINE,
)
