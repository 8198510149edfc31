"""What each dispatched op costs in FLOPs of contractions: 2 for each multiply-add, everything else 0 by a named rule.

An op is in one of four classes. FORMULA: a sum of products, and its count is below. ZERO: it moves, makes, compares or
draws numbers. ELEMENTWISE: arithmetic that is not a sum of products (activations, norms, softmax, sums). UNKNOWN: none
of these can be shown, so a total that contains it is "at least", and the op is named.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from math import prod
from typing import Any

import torch
from torch import Tensor

Formula = Callable[[tuple[Any, ...], Any], int]


class Kind(Enum):
    """The class of a dispatched op."""

    FORMULA = "formula"
    ZERO = "zero by rule"
    ELEMENTWISE = "elementwise"
    UNKNOWN = "unknown"


def _product(a: Tensor, b: Tensor) -> int:
    """2·(rows)·(inner)·(columns): every number of `a` meets every column of `b`."""
    return 2 * a.numel() * (b.shape[-1] if b.ndim > 1 else 1)


def _attention(args: tuple[Any, ...], out: Any) -> int:
    """q.k for every pair, and the weighted values: 2·T·S·(K + V) a head. A causal mask halves nothing that is run."""
    return _pairs(*args[:3]) * (args[0].shape[-1] + args[2].shape[-1])


def _attention_back(args: tuple[Any, ...], out: Any) -> int:
    """Scores again (never stored), their gradient, and the gradients of q, k (K wide) and v."""
    q, k, v = args[1:4]
    return _pairs(q, k, v) * (3 * q.shape[-1] + 2 * v.shape[-1])


def _pairs(q: Tensor, k: Tensor, v: Tensor) -> int:
    return 2 * prod(q.shape[:-1]) * k.shape[-2]


def _convolution(args: tuple[Any, ...], out: Any) -> int:
    """Each output (or, transposed, each input) meets one kernel. Padding is multiplied like any number."""
    x, weight, transposed = args[0], args[1], args[6]
    return _kernel(x, weight, out, transposed)


def _convolution_back(args: tuple[Any, ...], out: Any) -> int:
    """The gradient of the input and that of the kernel each cost what forward costs."""
    gradient, x, weight, transposed, wanted = args[0], args[1], args[2], args[7], args[10]
    return _kernel(x, weight, gradient, transposed) * sum(wanted[:2])


def _kernel(x: Tensor, weight: Tensor, out: Tensor, transposed: bool) -> int:
    return 2 * (x if transposed else out).numel() * prod(weight.shape[1:])


def _recurrent_layer(args: tuple[Any, ...], out: Any) -> int:
    """oneDNN's layer: both weights of all gates at every step of every row."""
    x, inward, across = args[:3]
    return 2 * prod(x.shape[:2]) * (inward.numel() + across.numel())


def _fused_attention(args: tuple[Any, ...], out: Any) -> int:
    """`nn.MultiheadAttention`'s inference kernel: (query, key, value, D, heads, W_qkv, b, W_out, ...)."""
    query, key = args[:2]
    rows, sources, width = query.shape[:-1].numel(), key.shape[:-1].numel(), args[3]
    projections = 2 * width * width * (2 * rows + 2 * sources)
    return projections + 4 * rows * key.shape[1] * width


def _fused_encoder(args: tuple[Any, ...], out: Any) -> int:
    """`nn.TransformerEncoderLayer`'s inference kernel: x, D, heads, and six matrices with their biases."""
    x, width = args[:2]
    rows = x.shape[:-1].numel()
    weights = sum(a.numel() for a in args if isinstance(a, Tensor) and a.ndim == 2)
    return 2 * rows * weights + 4 * rows * x.shape[1] * width


def _trilinear(args: tuple[Any, ...], out: Any) -> int:
    """sum over some axes of three broadcast factors: a multiply-add for every term."""
    shapes = []
    for factor, expand in zip(args[:3], args[3:6], strict=True):
        shape = list(factor.shape)
        for axis in sorted(expand):
            shape.insert(axis, 1)
        shapes.append(shape)
    return 2 * prod(torch.broadcast_shapes(*shapes))


def _outer(args: tuple[Any, ...], out: Any) -> int:
    """A product in which rows of one factor meet rows of the other: a contraction over an axis of length 1."""
    return 2 * out.numel()


def _recurrent(args: tuple[Any, ...], out: Any) -> int:
    """`threefold::recurrent` (cell, x, h0, c0, W_x, W_h, ...): every token meets both weights."""
    x, inward, across = args[1], args[4], args[5]
    return 2 * prod(x.shape[:2]) * (inward.numel() + across.numel())


def _recurrent_back(args: tuple[Any, ...], out: Any) -> int:
    """Both weights again, and both weight gradients; no gradient of x where none is wanted (the last argument)."""
    x, inward, across, need_x = args[1], args[4], args[5], args[-1]
    return 2 * prod(x.shape[:2]) * ((1 + need_x) * inward.numel() + 2 * across.numel())


FORMULAS: dict[str, Formula] = {
    "threefold::recurrent": _recurrent,
    "threefold::recurrent_backward": _recurrent_back,
    "mm": lambda args, out: _product(args[0], args[1]),
    "bmm": lambda args, out: _product(args[0], args[1]),
    "mv": lambda args, out: _product(args[0], args[1]),
    "dot": lambda args, out: _product(args[0], args[1]),
    "vdot": lambda args, out: _product(args[0], args[1]),
    "addmm": lambda args, out: _product(args[1], args[2]),
    "_addmm_activation": lambda args, out: _product(args[1], args[2]),
    "addmv": lambda args, out: _product(args[1], args[2]),
    "baddbmm": lambda args, out: _product(args[1], args[2]),
    "addbmm": lambda args, out: _product(args[1], args[2]),
    "addr": _outer,
    "ger": _outer,
    "linear": lambda args, out: 2 * args[0].numel() * args[1].shape[0],
    "_scaled_mm": lambda args, out: _product(args[0], args[1]),
    "_int_mm": lambda args, out: _product(args[0], args[1]),
    "_trilinear": _trilinear,
    "convolution": _convolution,
    "_convolution": _convolution,
    "convolution_overrideable": _convolution,
    "convolution_backward": _convolution_back,
    "mkldnn_rnn_layer": _recurrent_layer,
    "mkldnn_rnn_layer_backward": lambda args, out: 2 * _recurrent_layer(args, out),
    "_native_multi_head_attention": _fused_attention,
    "_transformer_encoder_layer_fwd": _fused_encoder,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_back,
    "_scaled_dot_product_flash_attention": _attention,
    "_scaled_dot_product_flash_attention_backward": _attention_back,
    "_scaled_dot_product_efficient_attention": _attention,
    "_scaled_dot_product_efficient_attention_backward": _attention_back,
    "_scaled_dot_product_cudnn_attention": _attention,
    "_scaled_dot_product_cudnn_attention_backward": _attention_back,
    "_scaled_dot_product_fused_attention_overrideable": _attention,
    "_scaled_dot_product_fused_attention_overrideable_backward": _attention_back,
}

_MOVES = """
_assert_async _local_scalar_dense _reshape_copy _to_copy _unique2 _unsafe_index_put _unsafe_view adaptive_max_pool2d
adaptive_max_pool2d_backward alias_copy arange argmax argmin argsort as_strided_scatter bernoulli bernoulli_ bucketize
cat channel_shuffle clone constant_pad_nd copy copy_ diagonal_scatter embedding embedding_dense_backward empty
empty_like empty_permuted empty_strided expand_copy exponential_ eye fill fill_ flip full full_like gather im2col
index index_add index_copy index_fill index_put index_put_ index_select isin kthvalue lift linspace masked_fill
masked_scatter masked_select max_pool2d_with_indices max_pool2d_with_indices_backward mode multinomial new_empty
new_empty_strided new_full new_ones new_zeros nonzero normal normal_ one_hot ones ones_like pad_sequence pixel_shuffle
promote_types rand rand_like randint randint_like randn randn_like randperm reflection_pad1d reflection_pad1d_backward
reflection_pad2d repeat repeat_interleave replication_pad1d resize_ roll scalar_tensor scatter scatter_ searchsorted
select_backward select_scatter set_ slice_backward slice_scatter sort split_copy split_with_sizes_copy stack topk tril
tril_ tril_indices triu triu_ triu_indices unbind_copy unfold_backward uniform_ unique_consecutive unsafe_split
unsafe_split_with_sizes upsample_nearest1d upsample_nearest2d upsample_nearest3d zero_ zeros zeros_like
"""

_ARITHMETIC = """
_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _batch_norm_with_update _ctc_loss _ctc_loss_backward _embedding_bag
_embedding_bag_backward _embedding_bag_dense_backward _embedding_bag_forward_only
_embedding_bag_per_sample_weights_backward _foreach_add _foreach_mul _fused_rms_norm _fused_rms_norm_backward
_log_softmax _log_softmax_backward_data _masked_softmax _native_batch_norm_legit _native_batch_norm_legit_functional
_native_batch_norm_legit_no_training _prelu_kernel_backward _safe_softmax _softmax _softmax_backward_data
_weight_norm_interface _weight_norm_interface_backward aminmax avg_pool1d avg_pool1d_backward avg_pool2d
avg_pool2d_backward avg_pool3d avg_pool3d_backward batch_norm_backward binary_cross_entropy
binary_cross_entropy_backward col2im cummax cummin cumprod cumsum elu_backward glu glu_backward hardsigmoid_backward
hardswish hardswish_backward hardtanh_backward huber_loss huber_loss_backward index_add_ index_reduce
linalg_vector_norm log_sigmoid_backward log_sigmoid_forward logcumsumexp mean_backward median mish_backward mse_loss
mse_loss_backward nanmedian native_batch_norm native_batch_norm_backward native_dropout native_dropout_backward
native_group_norm native_group_norm_backward native_layer_norm native_layer_norm_backward nll_loss2d_backward
nll_loss2d_forward nll_loss_backward nll_loss_forward norm renorm rsub scatter_add scatter_add_ scatter_reduce
smooth_l1_loss smooth_l1_loss_backward softplus_backward std_mean trace upsample_bicubic2d upsample_bicubic2d_backward
upsample_bilinear2d upsample_bilinear2d_backward upsample_linear1d upsample_linear1d_backward
upsample_nearest1d_backward upsample_nearest2d_backward upsample_trilinear3d upsample_trilinear3d_backward var_mean
"""

_ZERO = frozenset(_MOVES.split())
_ELEMENTWISE = frozenset(_ARITHMETIC.split())


def classify(op: Any, args: tuple[Any, ...], out: Any) -> tuple[Kind, int]:
    """The class of one dispatched op, and its FLOPs."""
    name = op_name(op)
    formula = FORMULAS.get(name)
    if formula:
        return Kind.FORMULA, formula(args, out)
    bare = name.removesuffix("_")
    if bare == "mul" and is_outer(*args[:2]):
        return Kind.FORMULA, _outer(args, out)
    if op.is_view or torch.Tag.inplace_view in op.tags or name in _ZERO or bare in _ZERO or _foreign_zero(op):
        return Kind.ZERO, 0
    tags = op.tags
    if torch.Tag.pointwise in tags or torch.Tag.reduction in tags or name in _ELEMENTWISE or bare in _ELEMENTWISE:
        return Kind.ELEMENTWISE, 0
    return Kind.UNKNOWN, 0


def op_name(op: Any) -> str:
    """`mm` for `aten.mm.default`; ops of other libraries keep their library: `mine::twist`."""
    name = op._schema.name
    return name.removeprefix("aten::")


def _foreign_zero(op: Any) -> bool:
    """Bookkeeping ops that compute nothing."""
    return op.namespace in ("profiler", "inductor", "debugprims")


def is_outer(a: Any, b: Any) -> bool:
    """Whether a product is a batch of outer products: axes of `a` only, axes of `b` only, and axes of both.

    Without an axis of both it is a table of two vectors (positions by frequencies, slopes by distances), and no signal.
    """
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        return False
    rank = max(a.ndim, b.ndim)
    left = (1,) * (rank - a.ndim) + tuple(a.shape)
    right = (1,) * (rank - b.ndim) + tuple(b.shape)
    sides = {(x > 1, y > 1) for x, y in zip(left, right, strict=True)}
    return sides >= {(True, False), (False, True), (True, True)}
