"""A made folder is whole or absent."""

from pathlib import Path

import pytest

from threefold.data.cache import folder, make_once


def test_made_once(tmp_path: Path) -> None:
    made: list[Path] = []

    def fill(draft: Path) -> None:
        made.append(draft)
        (draft / "a").write_text("x")

    for _ in range(2):
        assert (make_once(tmp_path / "deep" / "set", fill) / "a").read_text() == "x"
    assert len(made) == 1
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["set"]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def fill(draft: Path) -> None:
        (draft / "half").write_text("x")
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        make_once(tmp_path / "set", fill)
    assert list(tmp_path.iterdir()) == []


def test_the_race_is_won_by_the_first(tmp_path: Path) -> None:
    target = tmp_path / "set"

    def fill(draft: Path) -> None:
        (draft / "a").write_text("second")
        target.mkdir()
        (target / "a").write_text("first")

    assert (make_once(target, fill) / "a").read_text() == "first"


def test_the_place_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THREEFOLD_CACHE", str(tmp_path))
    assert folder() == tmp_path
    monkeypatch.delenv("THREEFOLD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folder() == tmp_path / "threefold"
