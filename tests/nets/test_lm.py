"""A language model is one function, however it is computed, padded or split; its cost per token does not grow."""

import pytest
import torch
from torch import Tensor

from threefold.errors import InputError
from threefold.nets.lm import LM
from threefold.specs.attention import Linear, Softmax
from threefold.specs.base import Form, MixerSpec, Spec
from threefold.specs.features import Taylor
from threefold.specs.nets import FFN, LMSpec, Norm, StackSpec
from threefold.specs.positions import Alibi, Learned, Rotary, Sinusoidal
from threefold.specs.recurrent import GRU, LSTM, RNN

STACKS: dict[str, tuple[MixerSpec, ...]] = {
    "softmax": (Softmax(heads=2, position=Alibi()), Softmax(heads=3, key_dim=2, value_dim=5)),
    "linear": (Linear(heads=2), Linear(heads=2, features=Taylor(2), position=Rotary())),
    "recurrent": (RNN(), GRU(), LSTM(hidden=7)),
    "hybrid": (LSTM(), Softmax(heads=2, position=Rotary()), Linear(heads=2, features=Taylor(2))),
}
each_stack = pytest.mark.parametrize("name", STACKS)
each_norm = pytest.mark.parametrize("norm", list(Norm))


def model_of(name: str, norm: Norm = Norm.PRE, **changes: object) -> LM:
    torch.manual_seed(0)
    spec = LMSpec(11, StackSpec(12, STACKS[name], FFN(16), norm), Sinusoidal())
    return spec.build().double().eval()


def tokens_of(rows: int = 3, length: int = 9) -> Tensor:
    return torch.randint(0, 11, (rows, length), generator=torch.Generator().manual_seed(1))


def near(a: Tensor, b: Tensor) -> bool:
    return bool((a - b).norm() <= 1e-11 * b.norm())


@each_stack
@each_norm
def test_steps_are_the_whole(name: str, norm: Norm) -> None:
    model, tokens = model_of(name, norm), tokens_of()
    state, said = model.init_state(3), []
    for token in tokens.unbind(1):
        logits, state = model.step(token, state)
        said.append(logits)
    assert near(torch.stack(said, 1), model(tokens))
    assert state.at.tolist() == [9, 9, 9]


@each_stack
@pytest.mark.parametrize("split", [0, 1, 4, 9])
def test_any_split_is_the_whole(name: str, split: int) -> None:
    model, tokens = model_of(name), tokens_of()
    first, state = model.scan(tokens[:, :split], model.init_state(3))
    second, _ = model.scan(tokens[:, split:], state)
    assert near(torch.cat([first, second], 1), model(tokens))


@each_stack
def test_padding_anywhere_changes_nothing(name: str) -> None:
    model, tokens = model_of(name), tokens_of()
    valid = torch.ones(3, 13, dtype=torch.bool)
    valid[0, :4] = valid[1, 9:] = valid[2, [0, 3, 7, 12]] = False
    padded = torch.full((3, 13), -99)
    padded[valid] = tokens.flatten()
    said = model(padded, valid)[valid].unflatten(0, (3, 9))
    assert near(said, model(tokens))


@each_stack
def test_the_future_is_not_seen(name: str) -> None:
    model, tokens = model_of(name), tokens_of()
    changed = tokens.clone()
    changed[:, 5] = (changed[:, 5] + 1) % 11
    before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_forms_agree_where_every_layer_has_them() -> None:
    model, tokens = model_of("linear"), tokens_of()
    assert near(model(tokens, form=Form.PARALLEL), model(tokens, form=Form.CHUNKED))
    assert near(model(tokens, form=Form.STEP), model(tokens, form=Form.CHUNKED))


def test_tying_removes_one_matrix_and_no_more() -> None:
    stack = StackSpec(8, (LSTM(),))
    counts = [sum(p.numel() for p in LMSpec(20, stack, tied=tied).build().parameters()) for tied in (True, False)]
    assert counts[1] - counts[0] == 20 * 8
    assert "output.weight" not in LMSpec(20, stack).build().state_dict()


def test_positions_count_valid_tokens_and_go_on_from_the_state() -> None:
    spec = LMSpec(11, StackSpec(12, (GRU(),)), Learned(9))
    model = spec.build().double()
    tokens = tokens_of()
    _, state = model.scan(tokens, model.init_state(3))
    with pytest.raises(InputError, match="position"):
        model.step(tokens[:, 0], state)


def test_a_reader_of_the_future_is_refused() -> None:
    with pytest.raises(InputError, match="causal"):
        LMSpec(11, StackSpec(12, (Softmax(heads=2, causal=False),)))


@each_stack
def test_spec_round_trip(name: str) -> None:
    spec = LMSpec(11, StackSpec(12, STACKS[name], FFN(16), Norm.POST), Sinusoidal())
    assert Spec.from_json(spec.to_json()) == spec
