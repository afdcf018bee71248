"""The provider of the crash tests refuses what real ones refuse."""

from __future__ import annotations

from typing import Any

import pytest

from support.strict_model import what_is_wrong

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "Hi"}
SAYS = {"role": "assistant", "content": "Hello"}


def _calls(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"id": one} for one in ids]}


def _result(call_id: str, content: str = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


@pytest.mark.parametrize(
    "messages",
    [
        [SYSTEM, USER],
        [USER, SAYS, USER, USER],
        [SYSTEM, USER, _calls("a", "b"), _result("a"), _result("b")],
        [SYSTEM, USER, _calls("a"), _result("a"), _calls("b"), _result("b"), SAYS, USER],
    ],
)
def test_a_good_conversation_is_taken(messages: list[dict[str, Any]]) -> None:
    assert what_is_wrong(messages) == ""


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([SYSTEM], "does not begin with a user's message"),
        ([SYSTEM, SAYS, USER], "does not begin with a user's message"),
        ([USER, SAYS], "ends with what the model said"),
        ([USER, SYSTEM, USER], "message 1 has the role system"),
        ([USER, _calls("a", "b"), _result("a")], "nothing answers ['b']"),
        ([USER, _calls("a"), USER], "comes before the results of ['a']"),
        ([USER, _calls("a", "b"), _result("b"), _result("a")], "no result of the next call"),
        ([USER, _calls("a"), _result("a"), _result("a")], "no result of the next call"),
        ([USER, _result("a"), USER], "no result of the next call of []"),
        ([USER, _calls("a", "a"), _result("a"), _result("a")], "uses a call's id again"),
        (
            [USER, _calls("a"), _result("a"), _calls("a"), _result("a")],
            "message 3 uses a call's id again",
        ),
        ([USER, {"role": "assistant", "content": ""}, USER], "message 1 is empty"),
        ([{"role": "user"}], "message 0 is empty"),
        ([USER, _calls("a"), _result("a", "")], "message 2 is empty"),
        ([{**USER, **_calls("a"), "role": "user"}, _result("a")], "is a user's"),
    ],
)
def test_a_spoilt_conversation_is_refused(messages: list[dict[str, Any]], why: str) -> None:
    assert why in what_is_wrong(messages)
