"""The documents' transformer (V 30000, d 1024, T 2048, 4 heads of 192, d_ff 512, B 32), built without memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from threefold.specs.attention import Softmax
from threefold.specs.cross import CrossAttention
from threefold.specs.nets import FFN, Bend, Norm, Seq2SeqSpec, StackSpec, Tying, transformer
from threefold.specs.positions import Learned

V, D, T, B, HEADS, KEY, HIDDEN, ENCODERS, DECODERS = 30000, 1024, 2048, 32, 4, 192, 512, 12, 8
ATTENTIONS = ENCODERS + 2 * DECODERS


def parameters(*builds: Callable[[], nn.Module]) -> int:
    """Parameters of modules built without memory, each tensor once."""
    total = 0
    for build in builds:
        with torch.device("meta"):
            total += sum(p.numel() for p in build().parameters())
    return total


def attention(*, causal: bool = False, bias: bool = True, key: int = KEY) -> Softmax:
    """Four heads, keys and values of 192."""
    return Softmax(heads=HEADS, key_dim=key, value_dim=key, causal=causal, bias=bias)


def block(*, decoder: bool, depth: int = 1, ffn: bool = True) -> StackSpec:
    """Encoder or decoder blocks alone."""
    cross = CrossAttention(attention()) if decoder else None
    part = FFN(HIDDEN, Bend.RELU) if ffn else None
    return StackSpec(D, (attention(causal=decoder),) * depth, part, Norm.POST, cross=cross)


def items() -> dict[str, int]:
    """The line items, each counted on the library's modules."""
    mha = parameters(lambda: attention().build(D))
    bare, full = (parameters(block(decoder=False, ffn=ffn).build) for ffn in (False, True))
    decoder = parameters(block(decoder=True).build)
    return {
        "MHA": mha,
        "norm": bare - mha,
        "FFN": full - bare - (bare - mha),
        "encoder block": full,
        "decoder block": decoder,
        "encoder": parameters(block(decoder=False, depth=ENCODERS).build),
        "decoder": parameters(block(decoder=True, depth=DECODERS).build),
    }


def spec(tying: Tying, *, output_bias: bool = False, embedding_bias: bool = False) -> Seq2SeqSpec:
    """The whole model under a convention."""
    return replace(transformer(tying=tying), output_bias=output_bias, embedding_bias=embedding_bias)


def total(model: Seq2SeqSpec) -> int:
    """Parameters of the whole model."""
    return parameters(model.build)


def normed(model: Seq2SeqSpec) -> Seq2SeqSpec:
    """With final norms after encoder and decoder."""
    return replace(
        model, encoder=replace(model.encoder, final_norm=True), decoder=replace(model.decoder, final_norm=True)
    )


def learned(model: Seq2SeqSpec) -> Seq2SeqSpec:
    """With learned positions, one table for each side."""
    return replace(model, position=Learned(T))


def unbiased(model: Seq2SeqSpec, *, ffn: bool) -> Seq2SeqSpec:
    """Without biases in the attention projections, or also in the feed-forward parts."""
    part = FFN(HIDDEN, Bend.RELU, bias=ffn)
    encoder = replace(model.encoder, mixers=(attention(bias=False),) * ENCODERS, ffn=part)
    mixers, cross = (attention(causal=True, bias=False),) * DECODERS, CrossAttention(attention(bias=False))
    return replace(model, encoder=encoder, decoder=replace(model.decoder, mixers=mixers, cross=cross, ffn=part))


class _Scores(TorchFunctionMode):
    """Notes the queries and keys that meet in attention, and what each head gives."""

    def __init__(self, shapes: dict[str, tuple[int, ...]]) -> None:
        super().__init__()
        self.shapes = shapes

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func is nn.functional.scaled_dot_product_attention:
            q, k = args[:2]
            self.shapes |= {"q, k, v": tuple(q.shape), "scores": (*q.shape[:3], k.shape[2])}
            b, _, t, v = out.shape
            self.shapes |= {"one head": (b, t, v)}
        return out


def signals() -> dict[str, tuple[int, ...]]:
    """Shapes of every kind of signal, traced through the real sizes on the meta device, one block of each kind."""
    with torch.device("meta"):
        model = replace(transformer(depth=(1, 1)), tying=Tying.NONE).build()
    shapes: dict[str, tuple[int, ...]] = {}
    names = {
        "decoder.embedding": "embedding",
        "position": "after positions",
        "encoder.blocks.0.mixer.heads.output": "attention output",
        "encoder.blocks.0.mixed.norm": "add & norm",
        "encoder.blocks.0.ffn.inner": "FFN hidden",
        "encoder.blocks.0.ffn.outer": "FFN output",
        "encoder": "encoder output",
        "decoder.stack.norm": "decoder output",
        "decoder.stack.blocks.0.mixer.heads.output": "masked attention output",
        "decoder.stack.blocks.0.cross": "cross attention output",
        "decoder.stack.blocks.0.ffn.inner": "decoder FFN hidden",
    }

    def note(name: str) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
        def hook(module: nn.Module, given: tuple[Any, ...], out: Any) -> None:
            if isinstance(out, Tensor):
                shapes[name] = tuple(out.shape)
            if name == "attention output":
                shapes["concatenated heads"] = tuple(given[0].shape)

        return hook

    for path, module in model.named_modules():
        if path in names:
            module.register_forward_hook(note(names[path]))
    ids = torch.zeros(B, T, dtype=torch.long, device="meta")
    with torch.no_grad(), _Scores(shapes):
        shapes["logits"] = tuple(model(ids, ids).shape)
    one_hot = nn.functional.one_hot(torch.zeros(1, 1, dtype=torch.long), V).shape[-1]
    return shapes | {"source, target as ids": tuple(ids.shape), "source, target one-hot": (*ids.shape, one_hot)}


def times(shape: tuple[int, ...]) -> str:
    """32×2048×1024."""
    return "×".join(map(str, shape))
