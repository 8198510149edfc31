"""Writing: what is likeliest by exhaustive search, drawn in the right proportions, one token's work a token."""

from itertools import product
from math import log

import pytest
import torch
from torch import Tensor

from threefold.errors import InputError
from threefold.nets.decode import Taste, beam, greedy, sample
from threefold.specs.attention import Softmax
from threefold.specs.nets import FFN, LMSpec, StackSpec, transformer
from threefold.specs.recurrent import GRU

STOP = 2
START = torch.tensor([0, 1, 3])


class Chain:
    """A table of next-token logits that depends on the last two tokens; counts how often each row was asked."""

    def __init__(self, vocab: int = 4, seed: int = 0) -> None:
        self.table = torch.randn(vocab, vocab, vocab, generator=torch.Generator().manual_seed(seed)) * 1.5
        self.asked = 0

    def state(self, rows: int) -> tuple[Tensor]:
        return (torch.zeros(rows, dtype=torch.long),)

    def step(self, token: Tensor, state: tuple[Tensor]) -> tuple[Tensor, tuple[Tensor]]:
        self.asked += len(token)
        return self.table[state[0], token], (token,)

    def score(self, start: int, tokens: list[int]) -> float:
        total, before, last = 0.0, 0, start
        for token in tokens:
            total += float(self.table[before, last].log_softmax(-1)[token])
            before, last = last, token
        return total


def best_by_hand(chain: Chain, start: int, limit: int, penalty: float) -> tuple[list[int], float]:
    """Every text up to the limit."""
    texts = [[*body, STOP] for n in range(limit) for body in product([0, 1, 3], repeat=n)]
    scored = [(chain.score(start, text) / ((5 + len(text)) / 6) ** penalty, text[:-1]) for text in texts]
    score, text = max(scored)
    return list(text), score


@pytest.mark.parametrize("penalty", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_finds_the_best_of_all(penalty: float, seed: int) -> None:
    chain = Chain(seed=seed)
    found = beam(chain.step, chain.state(3), START, stop=STOP, limit=4, beams=200, length_penalty=penalty)
    for row, start in enumerate(START.tolist()):
        text, score = best_by_hand(chain, start, 4, penalty)
        stopped = [h for h in found[row] if len(h.tokens) < 4]
        assert stopped[0].tokens == text
        assert abs(stopped[0].score - score) < 1e-5


@pytest.mark.parametrize("seed", range(4))
def test_one_beam_is_greedy_and_more_are_never_worse(seed: int) -> None:
    chain = Chain(seed=seed)
    plain = greedy(chain.step, chain.state(3), START, stop=STOP, limit=6)
    one = beam(chain.step, chain.state(3), START, stop=STOP, limit=6, beams=1, length_penalty=0.0)
    assert [found[0].tokens for found in one] == plain
    many = beam(chain.step, chain.state(3), START, stop=STOP, limit=6, beams=60, length_penalty=0.0)
    assert all(a[0].score >= b[0].score - 1e-6 for a, b in zip(many, one, strict=True))


def test_beams_are_sorted_distinct_and_scored_right() -> None:
    chain = Chain(seed=5)
    for row, found in enumerate(beam(chain.step, chain.state(3), START, stop=STOP, limit=5, beams=4)):
        texts = [tuple(h.tokens) for h in found]
        assert len(set(texts)) == len(texts)
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
        for h in found:
            text = h.tokens + [STOP] * (len(h.tokens) < 5)
            wanted = chain.score(int(START[row]), text) / ((5 + len(text)) / 6)
            assert abs(h.score - wanted) < 1e-5


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    torch.manual_seed(0)
    net = transformer(9, 16, 2, 4, 16, (1, 1)).build().eval()
    source = torch.randint(0, 9, (3, 5))
    together = beam(net.step, net.init_state(source), START, stop=STOP, limit=6, beams=3)
    for row in range(3):
        rows = slice(row, row + 1)
        alone = beam(net.step, net.init_state(source[rows]), START[rows], stop=STOP, limit=6, beams=3)
        assert [h.tokens for h in alone[0]] == [h.tokens for h in together[row]]


def test_greedy_is_what_the_whole_sequence_says() -> None:
    torch.manual_seed(0)
    model = LMSpec(7, StackSpec(8, (GRU(), Softmax(heads=2)), FFN(8))).build().eval()
    start = torch.tensor([3, 4])
    written = torch.tensor(greedy(model.step, model.init_state(2), start, stop=None, limit=8))
    whole = model(torch.cat([start[:, None], written[:, :-1]], 1))
    assert torch.equal(whole.argmax(-1), written)


def test_the_prefix_is_never_read_again() -> None:
    chain = Chain()
    greedy(chain.step, chain.state(3), START, stop=None, limit=10)
    assert chain.asked == 3 * 10


def test_draws_have_the_models_proportions() -> None:
    chain, count = Chain(), 4000
    drawn = sample(
        chain.step, chain.state(count), torch.zeros(count, dtype=torch.long), stop=None, limit=1,
        taste=Taste(temperature=0.7), generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    shares = torch.bincount(torch.tensor(drawn).flatten(), minlength=4) / count
    wanted = (chain.table[0, 0] / 0.7).softmax(-1)
    assert torch.allclose(shares, wanted, atol=0.03)


@pytest.mark.parametrize(("taste", "kept"), [(Taste(top_k=2), 2), (Taste(top_p=0.6), None), (Taste(top_k=1), 1)])
def test_narrowed_draws_stay_among_the_likeliest(taste: Taste, kept: int | None) -> None:
    chain, count = Chain(seed=3), 600
    order = chain.table[0, 0].argsort(descending=True).tolist()
    if kept is None:
        shares = chain.table[0, 0].softmax(-1)[order].cumsum(0)
        kept = int((shares < 0.6).sum()) + 1
    drawn = sample(
        chain.step, chain.state(count), torch.zeros(count, dtype=torch.long), stop=None, limit=1,
        taste=taste, generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    assert {row[0] for row in drawn} == set(order[:kept])


def test_the_same_generator_draws_the_same() -> None:
    chain = Chain()
    texts = [
        sample(chain.step, chain.state(3), START, stop=STOP, limit=9, generator=torch.Generator().manual_seed(7))
        for _ in range(2)
    ]
    assert texts[0] == texts[1]


def test_wrong_settings_are_refused() -> None:
    chain = Chain()
    for taste in (Taste(temperature=0), Taste(top_p=0), Taste(top_k=0)):
        with pytest.raises(InputError):
            sample(chain.step, chain.state(3), START, stop=STOP, limit=1, taste=taste)
    with pytest.raises(InputError, match="beams"):
        beam(chain.step, chain.state(3), START, stop=STOP, limit=1, beams=0)


def test_length_penalty_by_hand() -> None:
    chain = Chain()
    found = beam(chain.step, chain.state(3), START, stop=STOP, limit=1, beams=1, length_penalty=1.0)
    assert found[0][0].score <= log(1.0)
