"""Instructions that include files: what a model reads, and what is said where a file cannot be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from treadle.agents.catalogue import AgentProblem, Catalogue
from treadle.agents.checks import FILE_LIMIT_BYTES
from treadle.errors import InvalidAgent

# Long ago, so that a file counts as settled.
_OLD_NS = 10**18


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "config" / "agents" / "shared").mkdir(parents=True)
    return tmp_path / "config"


def _write(config: Path, name: str, text: str) -> Path:
    path = config / "agents" / name
    path.write_bytes(text.encode())
    return path


def _instructions(config: Path) -> str:
    return Catalogue(config).find("inbox").instructions


def _problem(config: Path, catalogue: Catalogue | None = None) -> str:
    with pytest.raises(InvalidAgent) as caught:
        (catalogue or Catalogue(config)).find("inbox")
    assert caught.value.data == {"path": str(config / "agents" / "inbox.md")}
    return caught.value.message


def test_a_line_is_replaced_by_the_file_that_it_names(config: Path) -> None:
    _write(config, "inbox.md", "---\nmax_turns: 3\n---\nSort.\n@include shared/tone.md\nEnd.\n")
    _write(config, "shared/tone.md", "Be kind.\n@include ../about.md\n\n")
    _write(config, "about.md", "You are me.\r\n")
    assert _instructions(config) == "Sort.\nBe kind.\nYou are me.\n\nEnd."


@pytest.mark.parametrize(
    "line", [" @include x.md", "see @include x.md", "@includes x.md", "`@include x.md`", "@"]
)
def test_any_other_line_is_text(config: Path, line: str) -> None:
    _write(config, "inbox.md", f"{line}\n")
    assert _instructions(config) == line


def test_an_included_file_that_changes_changes_the_instructions(config: Path) -> None:
    catalogue = Catalogue(config)
    _write(config, "inbox.md", "@include tone.md")
    paths = [_write(config, "tone.md", "Be kind."), config / "agents" / "inbox.md"]
    for path in paths:
        os.utime(path, ns=(_OLD_NS, _OLD_NS))
    first = catalogue.find("inbox")
    assert (first.instructions, catalogue.find("inbox") is first) == ("Be kind.", True)
    _write(config, "tone.md", "Be brief.")
    assert catalogue.find("inbox").instructions == "Be brief."
    (config / "agents" / "tone.md").unlink()
    assert catalogue.find("inbox").instructions == "Be brief."  # the last good one
    tone = config / "agents" / "tone.md"
    message = f"inbox.md, line 1: @include tone.md: there is no file {tone}"
    assert catalogue.list()[1] == [AgentProblem(str(paths[1]), message)]
    _write(config, "tone.md", "Be back.")
    assert catalogue.find("inbox").instructions == "Be back."
    assert catalogue.list()[1] == []


def test_a_link_that_leads_to_another_file_changes_the_instructions(config: Path) -> None:
    catalogue = Catalogue(config)
    _write(config, "inbox.md", "@include tone.md")
    for name in ("kind", "blunt"):
        os.utime(_write(config, f"shared/{name}.md", f"Be {name}."), ns=(_OLD_NS, _OLD_NS))
    link = config / "agents" / "tone.md"
    link.symlink_to(config / "agents" / "shared" / "kind.md")
    assert catalogue.find("inbox").instructions == "Be kind."
    link.unlink()
    link.symlink_to(config / "agents" / "shared" / "blunt.md")
    assert catalogue.find("inbox").instructions == "Be blunt."


def test_a_missing_file_is_named_with_the_line_that_includes_it(config: Path) -> None:
    _write(config, "inbox.md", "---\nmax_turns: 3\n---\nSort.\n\n@include shared/tone.md\n")
    _write(config, "shared/tone.md", "Be kind.\n@include nowhere.md")
    missing = config / "agents" / "shared" / "nowhere.md"
    assert _problem(config) == (
        "inbox.md, line 6: @include shared/tone.md: its line 2: "
        f"@include nowhere.md: there is no file {missing}"
    )


@pytest.mark.parametrize("name", ["../../outside.md", "link.md"])
def test_a_file_outside_the_config_folder_is_not_included(config: Path, name: str) -> None:
    outside = config.parent / "outside.md"
    outside.write_text("secret")
    (config / "agents" / "link.md").symlink_to(outside)
    _write(config, "inbox.md", f"@include {name}")
    said = f"inbox.md, line 1: @include {name}: the file must lie inside {config}"
    assert _problem(config) == said


def test_an_absolute_path_is_judged_by_where_it_leads(config: Path) -> None:
    inside = _write(config, "tone.md", "Be kind.")
    _write(config, "inbox.md", f"@include {inside}")
    assert _instructions(config) == "Be kind."
    _write(config, "inbox.md", "@include /etc/hostname")
    assert "must lie inside" in _problem(config)


def test_files_that_include_each_other_are_an_error(config: Path) -> None:
    _write(config, "inbox.md", "@include inbox.md")
    said = "it includes itself, by itself or through others"
    assert _problem(config) == f"inbox.md, line 1: @include inbox.md: {said}"
    _write(config, "inbox.md", "@include one.md")
    _write(config, "one.md", "@include shared/../two.md")
    _write(config, "two.md", "\n@include one.md")
    assert _problem(config).endswith(f"its line 2: @include one.md: {said}")


def test_depth_number_and_size_are_bounded(config: Path) -> None:
    for number in range(9):
        _write(config, f"{number}.md", f"@include {number + 1}.md")
    _write(config, "inbox.md", "@include 0.md")
    assert "files are included at most 4 deep" in _problem(config)
    _write(config, "one.md", "x")
    _write(config, "inbox.md", "@include one.md\n" * 33)
    assert _problem(config).startswith("inbox.md, line 33: @include one.md: at most 32 files")
    _write(config, "one.md", "x" * (FILE_LIMIT_BYTES // 2))
    _write(config, "inbox.md", "@include one.md\n" * 3)
    assert _problem(config).endswith("what is included has more than 256 KiB")


def test_what_is_no_text_file_is_not_included(config: Path) -> None:
    _write(config, "inbox.md", "@include shared")
    assert _problem(config).endswith("@include shared: it cannot be read: it is not a regular file")
    (config / "agents" / "raw.md").write_bytes(b"fine\n\xff")
    _write(config, "inbox.md", "@include raw.md")
    assert _problem(config).endswith("raw.md: its line 2: the file is not UTF-8; save it as UTF-8")
    _write(config, "inbox.md", "@include")
    assert _problem(config) == (
        "inbox.md, line 1: @include must name a file, as in @include tone.md, on the same line"
    )


def test_a_huge_line_of_blanks_costs_nothing(config: Path) -> None:
    line = "@include" + " " * 200_000 + "\0"
    _write(config, "inbox.md", line.replace("\0", "x\x7f"))
    assert "must name a file" in _problem(config)
