"""What keys do in a chat, beside those that edit text.

Owns the bindings. Refuses to know what becomes of what was entered.
"""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, is_searching
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from treadle.cli.chat.commands import complete


def key_bindings(
    buffer: Buffer,
    *,
    on_enter: Callable[[str], None],
    on_interrupt: Callable[[], None],
    on_end: Callable[[], None],
    on_choice: Callable[[list[str]], None],
) -> KeyBindings:
    """Return the bindings of the keys.

    Args:
        buffer: what is typed into.
        on_enter: takes what was entered.
        on_interrupt: Ctrl-C was pressed.
        on_end: Ctrl-D was pressed, and nothing is typed.
        on_choice: what was typed can become any of these.
    """
    keys = KeyBindings()
    typing = ~is_searching
    empty = Condition(lambda: not buffer.text)

    @keys.add("enter", filter=typing)
    def _enter(event: KeyPressEvent) -> None:
        text = buffer.text
        if text.strip():
            buffer.append_to_history()
        buffer.reset()
        on_enter(text)

    @keys.add("escape", "enter", filter=typing)
    @keys.add("c-j", filter=typing)
    def _new_line(event: KeyPressEvent) -> None:
        buffer.newline(copy_margin=False)

    @keys.add("c-c", filter=typing)
    def _interrupt(event: KeyPressEvent) -> None:
        on_interrupt()

    @keys.add("c-d", filter=typing & empty)
    def _end(event: KeyPressEvent) -> None:
        on_end()

    @keys.add("tab", filter=typing)
    def _complete(event: KeyPressEvent) -> None:
        before = buffer.document.text_before_cursor
        text, choices = complete(before)
        buffer.insert_text(text[len(before) :])
        if len(choices) > 1 and text == before:
            on_choice(choices)

    @keys.add("c-z", filter=typing)
    def _suspend(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    return keys
