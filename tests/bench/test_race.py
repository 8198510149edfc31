"""What a race says: ratios the right way round, promises kept or not, nothing raced that is not lawful."""

import json
import time
from dataclasses import replace

import pytest
import torch

from threefold.bench import attention, recurrent, step, suites
from threefold.bench.race import Race, Row, number, run, smallest
from threefold.cli.main import run as cli
from threefold.errors import InputError
from threefold.kernels import which
from threefold.specs.attention import Softmax
from threefold.specs.features import Elu1, Taylor
from threefold.specs.recurrent import GRU

RACE = Race(work="a", against="b", ours=int, theirs=int)


def test_a_ratio_says_how_much_better_we_are() -> None:
    faster = Row(replace(RACE, wanted=3.0), ours=2.0, theirs=8.0)
    assert faster.ratio == 4.0 and faster.met is True and faster.promise == "at least 3x"
    assert Row(replace(RACE, wanted=5.0), 2.0, 8.0).met is False
    limit = Row(replace(RACE, wanted=1.05, at_most=True), ours=10.4, theirs=10.0)
    assert limit.ratio == pytest.approx(1.04) and limit.met is True and limit.promise == "at most 1.05x"
    assert Row(replace(RACE, wanted=1.05, at_most=True), 11.0, 10.0).met is False
    rate = Row(replace(RACE, wanted=1.5, flops=(1.0, 1.0)), ours=300.0, theirs=200.0)
    assert rate.ratio == 1.5 and rate.unit == "GFLOP/s" and rate.met is True
    assert Row(RACE, 1.0, 2.0).met is None and Row(RACE, 1.0, 2.0).promise == ""


def test_rates_are_work_over_time_and_counts_are_not_timed() -> None:
    slow = replace(RACE, ours=lambda: time.sleep(0.002), theirs=lambda: time.sleep(0.002), flops=(4e6, 2e6))
    row = run(slow, repeats=3, seconds=0)
    assert 0 < row.ours <= 4e6 / 2e-3 / 1e9 and 0 < row.theirs <= 2e6 / 2e-3 / 1e9
    assert run(replace(RACE, ours=lambda: 5, theirs=lambda: 7, counts="MB")).to_dict()["ours"] == "5.00 MB"


def test_works_take_turns_and_the_smallest_counts() -> None:
    order: list[str] = []
    best = smallest([lambda: order.append("a"), lambda: order.append("b")], repeats=7, seconds=0)
    assert order == ["a", "b"] * 8, "once each to warm up, then in turns"
    assert len(best) == 2 and all(0 <= each < 1 for each in best)


def test_numbers_are_written_for_people() -> None:
    assert [number(x) for x in (1234.5, 12.345, 0.0123, 0.5)] == ["1234", "12.3", "0.0123", "0.500"]


def test_a_mixer_that_breaks_its_laws_is_not_raced(monkeypatch) -> None:
    monkeypatch.setattr(suites, "broken", lambda spec: "causal")
    with pytest.raises(InputError, match="breaks causal, so its time says nothing"):
        next(suites.raced(iter([replace(RACE, spec=GRU())])))
    assert next(suites.raced(iter([RACE]), 1, 0.0)).ours >= 0, "what has no laws is raced"


@pytest.mark.slow
def test_what_is_raced_is_lawful() -> None:
    for spec in (attention.TAYLOR, attention.ELU1, GRU()):
        assert suites.broken(spec) == ""


def test_each_side_runs_its_own_path() -> None:
    q, k, v = attention.tensors(40, 16)
    outputs = []
    for native in (True, False):
        work = attention.ours(40, 16, Taylor(2), native=native)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
            work()
        outputs.append({event.key for event in seen.key_averages()})
    assert ("threefold::linear" in outputs[0]) == (which(attention.TAYLOR, torch.empty(1, 9, 8)) == "native")
    assert "threefold::linear" not in outputs[1]
    assert q.shape == k.shape == (1, 40, 8, 16) and v.shape == (1, 40, 8, 64)


def test_every_work_runs() -> None:
    for train in (False, True):
        attention.ours(9, 3, Elu1(), train=train)()
        attention.softmax(9, train=train)()
    for padded in recurrent.PADDED:
        recurrent.ours(GRU(), 2, 5, 8, padded=padded)()


def test_half_of_the_tokens_are_padding_either_way() -> None:
    ends, rows = (recurrent.PADDED[name](4, 6) for name in ("half of each row", "half of the rows"))
    assert ends.sum(1).tolist() == [3, 3, 3, 3] and ends[:, :3].all()
    assert rows.sum(1).tolist() == [6, 6, 0, 0]


def test_steps_go_on_from_the_context() -> None:
    mixer = Softmax(heads=8).build(step.WIDTH)
    with torch.no_grad():
        state = step.seen(mixer, 5)
        y, after = mixer.step(torch.ones(1, step.WIDTH), state)
    assert state.tokens.tolist() == [5] and after.tokens.tolist() == [6] and y.isfinite().all()


def test_a_result_file_tells_its_conditions(tmp_path) -> None:
    row = Row(replace(RACE, wanted=2.0), 1.0, 3.0).to_dict()
    suites.write(tmp_path / "results" / "targets.json", [row])
    found = json.loads((tmp_path / "results" / "targets.json").read_text())
    assert found["rows"] == [json.loads(json.dumps(row))]
    assert {"work", "against", "ours", "theirs", "ratio", "wanted"} <= set(found["rows"][0])
    assert torch.__version__ in found["conditions"] and f"{torch.get_num_threads()} threads" in found["conditions"]
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["targets.json"]


def test_the_command(capsys, monkeypatch, tmp_path) -> None:
    assert cli(["bench", "recurent"]) == 2
    assert "did you mean 'recurrent'" in capsys.readouterr().err
    kept, missed = replace(RACE, work="kept", wanted=1e-9), replace(RACE, work="missed", wanted=1e9)
    monkeypatch.setattr(suites, "races", lambda names: iter([kept, missed]))
    assert cli(["bench", "--seconds", "0", "--into", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "1 of 2 promises kept." in told and "NOT kept" in told
    assert json.loads((tmp_path / "targets.json").read_text())["rows"][0]["met"] is True
    monkeypatch.setattr(suites, "races", lambda names: iter([kept]))
    assert cli(["bench", "--seconds", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["work"] == "kept"
