"""What a command sees of the daemon's environment: an allow-list, and nothing that authorises."""

from __future__ import annotations

import os

import pytest

from treadle import secrets
from treadle.process.shell import DEFAULT_PATH, shell_argv, shell_environment

SECRET = "sk-never-to-be-seen-4711"


def test_only_what_is_listed_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        os,
        "environ",
        {
            "PATH": "/bin:/opt/bin",
            "HOME": "/home/me",
            "LC_TIME": "de_DE.UTF-8",
            "TZ": "UTC",
            "OPENAI_API_KEY": SECRET,
            "OPENAI_BASE_URL": "https://example.org",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "SSH_AUTH_SOCK": "/tmp/agent",
            "TREADLE_DATA_DIR": "/data",
            "BASH_ENV": "/home/me/evil.sh",
            "ENV": "/home/me/evil.sh",
            "LD_PRELOAD": "/evil.so",
            "PYTHONPATH": "/evil",
        },
    )
    assert shell_environment() == {
        "PATH": "/bin:/opt/bin",
        "HOME": "/home/me",
        "LC_TIME": "de_DE.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "PAGER": "cat",
        "MANPAGER": "cat",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "true",
        "GIT_TERMINAL_PROMPT": "0",
        "PYTHONUNBUFFERED": "1",
    }


def test_a_secret_does_not_pass_under_an_allowed_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_values", (("the token", SECRET),))
    monkeypatch.setenv("LC_TOKEN", SECRET)
    monkeypatch.setenv("LC_OTHER", f"with {SECRET} in it")
    monkeypatch.setenv("LC_ALL", "C")
    seen = shell_environment()
    assert SECRET not in str(seen)
    assert seen["LC_ALL"] == "C"


def test_a_daemon_without_a_path_looks_where_systems_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PATH")
    assert shell_environment()["PATH"] == DEFAULT_PATH


@pytest.mark.skipif(os.name == "nt", reason="Windows has other shells")
def test_the_shell_does_not_depend_on_whose_login_shell_is_what(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    monkeypatch.setenv("PATH", "")
    shell, *rest = shell_argv("echo")
    assert os.path.basename(shell) in ("bash", "sh")  # noqa: PTH119 - a name, not a file
    assert rest == ["-c", "echo"]
