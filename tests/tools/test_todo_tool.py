"""The tool `todo`, as a model meets it."""

from __future__ import annotations

from support.calls import in_memory


async def test_a_list_of_steps_is_kept_whole_and_shown() -> None:
    caller = in_memory()
    items = [
        {"text": "look", "state": "done"},
        {"text": "fix\nit", "state": "in_progress"},
        {"text": "test"},
    ]
    assert await caller.told("todo", items=items) == (
        "1 of 3 done:\n[x] look\n[>] fix it\n[ ] test"
    )
    assert caller.session.todo.rendered().startswith("1 of 3 done:")
    assert await caller.told("todo", items=[]) == "The list is empty."
