"""Run the library with its shape annotations enforced: every mixer in every form, every net, a claim of each subject.

`tests/test_annotations.py` starts this in a process of its own: checked functions are slower and cannot be compiled, so
the other tests run the library as users do.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

from jaxtyping import TypeCheckError, install_import_hook

CHECKED = ("ops", "positions", "mixers", "nets", "claims")

with install_import_hook([f"threefold.{name}" for name in CHECKED], "beartype.beartype"):
    import torch

    from threefold.claims import SUBJECTS
    from threefold.claims.judge import judge
    from threefold.mixers.base import CausalMixer
    from threefold.mixers.catalog import CATALOG, WIDTH
    from threefold.mixers.linear import NormaliserWarning
    from threefold.nets.decode import beam, greedy
    from threefold.ops import softmax
    from threefold.ops.rotate import rotate
    from threefold.specs.attention import Linear, Softmax
    from threefold.specs.cross import CrossAttention
    from threefold.specs.features import Taylor
    from threefold.specs.nets import FFN, ClassifierSpec, LMSpec, Pool, StackSpec, transformer
    from threefold.specs.positions import Layout, Sinusoidal
    from threefold.specs.recurrent import LSTM
    from threefold.specs.speech import SpeechSpec
    from threefold.specs.vision import CNNSpec

BROAD = {"lstm", "counting", "cnn", "metrics", "experiments"}  # long, or without annotated tensors
VALID = torch.tensor([[True, False, True, True, False], [True] * 5])


def every_mixer() -> int:
    """Forward and backward, whole and masked, in every form; and one step."""
    for spec in CATALOG:
        mixer = spec.build(WIDTH)
        x = torch.randn(2, 5, WIDTH, requires_grad=True)
        for form in spec.traits.forms:
            for valid in (None, VALID):
                mixer.whole(x, valid, form=form).sum().backward()
        if isinstance(mixer, CausalMixer):
            mixer.step(x[:, 0], mixer.init_state(2))
    for over in (Softmax(heads=2, causal=False), Linear(heads=2, causal=False, features=Taylor(2))):
        cross = CrossAttention(over).build(8, 6)
        cross(torch.randn(2, 3, 8), cross.remember(torch.randn(2, 5, 6), VALID))
    return len(CATALOG)


def every_net() -> None:
    """One small forward of each, and the decoders."""
    mixers = (LSTM(), Softmax(heads=2), Linear(heads=2, features=Taylor(2)))
    ids = torch.randint(0, 9, (2, 5))
    lm = LMSpec(9, StackSpec(8, mixers, FFN(8)), Sinusoidal()).build().eval()
    lm(ids, VALID)
    classifier = ClassifierSpec(9, 3, StackSpec(8, mixers, FFN(8)), Sinusoidal(), Pool.MEAN).build()
    classifier(ids, VALID)
    pair = transformer(9, 8, heads=2, head_dim=4, hidden=8, depth=(1, 1)).build().eval()
    pair(ids, ids, VALID, VALID)
    start = ids[:, 0]
    beam(pair.step, pair.init_state(ids, VALID), start, stop=1, limit=3, beams=2)
    greedy(lm.step, lm.init_state(2), start, stop=None, limit=3)
    CNNSpec(4).build()(torch.randn(2, 1, 28, 28))
    text = StackSpec(8, (LSTM(),), FFN(8), cross=CrossAttention(Softmax(heads=2, causal=False)))
    speech = SpeechSpec(9, StackSpec(8, (Softmax(heads=2, causal=False),), FFN(8)), text, ctc=True).build().eval()
    speech(speech.front(torch.randn(2, 4000)), ids, None, VALID)


def a_claim_of_each_subject() -> None:
    """The first that computes, with its verdict as recorded."""
    for name, (_, claims) in SUBJECTS.items():
        if name not in BROAD:
            judged = judge([claim for claim in claims if claim.computes][:3])
            assert not any(each.moved for each in judged), [each.verdict.limits for each in judged]


def refused(call: Callable[[], object]) -> bool:
    """Whether a call with tensors of a wrong shape or kind is stopped at its signature."""
    try:
        call()
    except TypeCheckError:
        return True
    return False


if __name__ == "__main__":
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", NormaliserWarning)
    torch.manual_seed(0)
    mixers = every_mixer()
    every_net()
    a_claim_of_each_subject()
    mixer = Softmax(heads=2).build(8)
    wrong = [
        lambda: mixer(torch.randn(2, 8)),
        lambda: mixer(torch.randn(2, 3, 8), torch.ones(2, 3)),
        lambda: mixer(torch.randn(2, 3, 8), torch.ones(2, 4, dtype=torch.bool)),
        lambda: rotate(torch.randn(1, 3, 2, 4), torch.zeros(1, 2).long(), 1e4, Layout.HALVES),
        lambda: softmax.everywhere(torch.randn(2, 3, 4), None),
    ]
    assert all(refused(call) for call in wrong), [refused(call) for call in wrong]
    sys.stdout.write(f"{mixers} mixers\n")
