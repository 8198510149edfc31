"""One number of one seed: what the statements are judged by."""

from __future__ import annotations

from collections.abc import Callable

from threefold.claims.experiments.experiment import Pair

Measure = Callable[[Pair], float]


def difference(metric: str, first: str, second: str) -> Measure:
    """First arm − second arm in a metric of the test set."""
    return lambda pair: float(pair[first].test[metric]) - float(pair[second].test[metric])


def recall_of_negatives(pair: Pair) -> float:
    """The smaller of the two arms' recall of negatives − recall of positives."""
    rows = [finished.test["per_class"] for finished in pair.values()]
    return min(row["negative"]["recall"] - row["positive"]["recall"] for row in rows)


def time_saved(slower: str, faster: str) -> Measure:
    """Share of the training time that the second arm saves."""
    return lambda pair: 1 - pair[faster].seconds / pair[slower].seconds


def overhead(arm: str, base: str, beyond: float) -> Measure:
    """Extra training time of an arm, beyond a share."""
    return lambda pair: pair[arm].seconds / pair[base].seconds - 1 - beyond


def kept_at(arm: str, times: int, allowance: float = 0.05) -> Measure:
    """loss(L) + allowance − loss(times L), over the last 32 characters: positive if longer inputs are no worse."""

    def measure(pair: Pair) -> float:
        losses = pair[arm].test["at_length"]
        far = losses[str(times)]
        return float("-inf") if far is None else losses["1"] + allowance - far

    return measure


def better_far(first: str, second: str, times: int) -> Measure:
    """Loss of the second arm − that of the first at a multiple of the training length."""
    return lambda pair: (
        float(pair[second].test["at_length"][str(times)]) - float(pair[first].test["at_length"][str(times)])
    )


def wider_gap(first: str, second: str) -> Measure:
    """Test loss over training loss, first arm − second."""
    return lambda pair: pair[first].gap - pair[second].gap


def best_rate(rate: str, others: tuple[str, ...]) -> Measure:
    """Accuracy at a learning rate − the best of the others."""
    return lambda pair: (
        float(pair[rate].test["accuracy"]) - max(float(pair[other].test["accuracy"]) for other in others)
    )


def distance_from(arm: str, metric: str, target: float) -> Measure:
    """A metric − its reported value."""
    return lambda pair: float(pair[arm].test[metric]) - target


def all_four(pair: Pair) -> float:
    """The attention decoder's smallest advantage over the LSTM's in Jaccard, cosine, Damerau-Levenshtein and loss."""
    new, old = pair["attention"].test, pair["LSTM"].test
    similar = [new[name] - old[name] for name in ("jaccard", "cosine", "damerau_levenshtein")]
    return float(min(*similar, old["loss"] - new["loss"]))


def within_percent(base: str, other: str, percent: float = 1.0) -> Measure:
    """Loss of the base, and a little more, − that of the other."""
    return lambda pair: float(pair[base].test["loss"]) * (1 + percent / 100) - float(pair[other].test["loss"])


def fades(pair: Pair) -> float:
    """Mean |score| at distances below 8 − at 32 to 63, keys shuffled so that only positions differ; over all layers."""
    import torch

    from threefold.mixers.attention import SoftmaxMixer
    from threefold.recipes.charlm import CharlmTask
    from threefold.recipes.saved import reopen

    (finished,) = pair.values()
    saved = reopen(finished.run.folder)
    assert isinstance(saved.task, CharlmTask)
    text = saved.task.parts["test"][: 32 * 64].view(32, 64)
    here, order = torch.arange(64)[None], torch.randperm(64, generator=torch.Generator().manual_seed(0))
    mixers = [module for module in saved.model.modules() if isinstance(module, SoftmaxMixer)]
    entered: list[torch.Tensor] = []
    hooks = [mixer.heads.query.register_forward_pre_hook(lambda _, x: entered.append(x[0])) for mixer in mixers]
    with torch.no_grad():
        saved.model(text)
        for hook in hooks:
            hook.remove()
        scores = []
        for mixer, x in zip(mixers, entered, strict=True):
            q, k = mixer.heads.queries(x), mixer.heads.keys(x)[:, order]
            assert mixer.heads.turn is not None
            q, k = mixer.heads.turn(q, here), mixer.heads.turn(k, here)
            scores.append(torch.einsum("bthk,bshk->bhts", q, k).abs().mean((0, 1)))
    distance = here.T - here
    near = (distance >= 0) & (distance < 8)
    return sum(float(s[near].mean() - s[distance >= 32].mean()) for s in scores) / len(scores)
