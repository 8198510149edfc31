"""Native linear attention as a torch operator: compiled, autocast, differentiated twice, frugal, deaf to padding."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from tests.kernels.linear_cases import LIMIT, MAPS, Case, apart, gradients, reference, state, values
from threefold.kernels import native
from threefold.kernels.linear import ACCELERATOR, _numbers, run, supports
from threefold.kernels.native import available, disabled
from threefold.mixers.linear import LinearMixer
from threefold.ops import linear
from threefold.ops.linear import LinearState
from threefold.specs.attention import Linear
from threefold.specs.features import Elu1, Identity, Relu, Taylor
from threefold.specs.positions import Decay

pytestmark = pytest.mark.skipif(bool(available()), reason=f"no native kernels here: {available()}")
F32, F64 = torch.float32, torch.float64
SMALL = Case(T=9, K=3, V=2, B=2, H=2)


def mixer(width: int = 12, normalised: bool = True, decay: bool = False) -> LinearMixer:
    torch.manual_seed(1)
    return Linear(heads=3, normalised=normalised, position=Decay() if decay else None).build(width)


def ran(work) -> list[str]:
    """The names of our operators that `work` calls."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        work()
    return [event.key for event in seen.key_averages() if event.key.startswith("threefold::")]


@pytest.mark.parametrize("case", [SMALL, Case(Elu1(), T=9, K=3, V=2, decay=True, masked=True)], ids=str)
def test_first_and_second_derivatives_by_finite_differences(case: Case) -> None:
    options = case.options()
    leaves = [x.requires_grad_() for x in case.tensors(F64)]

    def outputs(*tensors):
        y, after = values(run, list(tensors), options)
        return y, after.memory, after.mass

    assert gradcheck(outputs, leaves, fast_mode=True)
    assert gradgradcheck(outputs, leaves, fast_mode=True)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("normalised", [False, True])
def test_the_operators_are_what_they_declare(normalised: bool, masked: bool) -> None:
    case = Case(T=9, K=3, V=2, normalised=normalised, masked=masked)
    tensors, options = case.tensors(), case.options()
    rest = (options["valid"], options["rates"], *_numbers(case.features, case.K))
    leaves = [x.requires_grad_() for x in tensors]
    torch.library.opcheck(torch.ops.threefold.linear.default, (*leaves, *rest))
    y, n, memory, mass, _ = (x.detach() for x in torch.ops.threefold.linear.default(*tensors, *rest))
    dy, dmemory, dmass = torch.randn_like(y), torch.randn_like(memory), torch.randn_like(mass)
    given = (dy, dmemory, dmass, *(x.detach() for x in tensors), y, n, *rest)
    torch.library.opcheck(
        torch.ops.threefold.linear_backward.default,
        given,
        test_utils=("test_schema", "test_faketensor", "test_autograd_registration"),
    )


@pytest.mark.parametrize("decay", [False, True])
def test_a_compiled_mixer_is_one_graph_that_holds_the_operator(decay: bool) -> None:
    layer = mixer(decay=decay)
    x, valid = torch.randn(2, 19, 12), torch.rand(2, 19) < 0.7
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert "threefold::linear" in ran(lambda: compiled(x, valid))
    assert torch.equal(compiled(x, valid), layer(x, valid))
    plain = torch.autograd.grad(layer(x, valid).square().sum(), list(layer.parameters()))
    traced = torch.autograd.grad(compiled(x, valid).square().sum(), list(layer.parameters()))
    for a, b in zip(traced, plain, strict=True):
        assert apart(a, b) <= 1e-6


def test_under_autocast_the_state_stays_float32() -> None:
    layer, x = mixer(), torch.randn(2, 40, 12)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, after = layer.scan(x, layer.init_state(2))
        assert "threefold::linear" in ran(lambda: layer(x))
    assert after.memory.dtype == after.mass.dtype == F32
    assert apart(y, layer(x)) <= 0.03
    y.float().square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("normalised", [False, True])
def test_disabled_runs_torch_and_gives_the_same(normalised: bool) -> None:
    layer, x = mixer(normalised=normalised).double(), torch.randn(2, 40, 12, dtype=F64)
    assert "threefold::linear" in ran(lambda: layer(x))
    y = layer(x)
    with disabled("for a comparison"):
        assert not ran(lambda: layer(x))
        assert available() == "for a comparison"
        assert apart(layer(x), y) <= 1e-12
    assert not available()


def test_one_token_runs_natively() -> None:
    layer = mixer().double()
    x, held = torch.randn(2, 6, 12, dtype=F64), layer.init_state(2)
    assert "threefold::linear" in ran(lambda: layer.step(x[:, 0], held))
    steps = []
    for t in range(6):
        y, held = layer.step(x[:, t], held)
        steps.append(y)
    with disabled():
        assert apart(torch.stack(steps, 1), layer(x)) <= 1e-12


def kept(T: int, K: int) -> int:
    """Bytes that forward keeps for backward."""
    case = Case(T=T, K=K, V=16, B=1, H=2)
    leaves = [x.requires_grad_() for x in case.tensors()]
    seen: dict[int, int] = {}

    def pack(x):
        seen[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        values(run, leaves, case.options())
    return sum(seen.values())


def test_what_is_kept_grows_as_the_tokens_and_not_as_their_features() -> None:
    grew = {K: (kept(2048, K) - kept(1024, K)) // 1024 for K in (8, 16)}
    for K, bytes_per_token in grew.items():
        assert bytes_per_token == 4 * 2 * (2 * K + 2 * 16 + 1), "q, k, v, y and n, of 2 heads"
    assert grew[16] < 4 * 2 * Taylor(2).dim(16)


@pytest.mark.parametrize("features", MAPS, ids=repr)
def test_nothing_of_a_padded_token_is_read(features) -> None:
    case = Case(features, T=37, masked=True, decay=True)
    tensors, options = case.tensors(), case.options()
    clean, after = values(run, tensors, options)
    spoiled = [x.clone() for x in tensors]
    for x in spoiled[:3]:
        x[~options["valid"]] = float("nan")
    y, state_after = values(run, spoiled, options)
    assert torch.equal(y, clean) and torch.equal(state_after.memory, after.memory)
    assert torch.equal(state_after.mass, after.mass)
    assert not y[~options["valid"]].any()
    for got, wanted in zip(gradients(run, spoiled, options), gradients(run, tensors, options), strict=True):
        assert torch.equal(got, wanted)
    assert not gradients(run, spoiled, options)[1][~options["valid"]].any()


def test_a_token_that_is_not_a_number_reaches_no_earlier_one() -> None:
    case = Case(T=30)
    tensors = case.tensors()
    clean, _ = values(run, tensors, case.options())
    for x in tensors[:3]:
        x[:, 13] = float("nan")
    y, _ = values(run, tensors, case.options())
    assert torch.equal(y[:, :13], clean[:, :13]) and y[:, 13:].isnan().all()


def test_normalisers_that_are_not_positive_are_counted() -> None:
    torch.manual_seed(2)
    q, k, v = (torch.randn(2, 50, 3, size, dtype=F64) for size in (4, 4, 5))
    empty = linear.empty(2, 3, 4, 5, normalised=True, like=q.new_zeros(()))
    options = {"features": Identity(), "valid": torch.rand(2, 50) < 0.7, "rates": None}
    y, after = run(q, k, v, empty, **options)
    want, expected = linear.parallel(q, k, v, empty, **options)
    assert torch.equal(after.nonpositive, expected.nonpositive) and (after.nonpositive > 0).all()
    assert apart(y, want) <= 1e-9, "divided by what may be small, and not clamped"
    y, after = run(-q.abs(), k, v, empty, **(options | {"features": Relu()}))
    assert not y.any() and after.nonpositive.sum() == options["valid"].sum() * 3, "empty sums are 0, and are counted"


@pytest.mark.parametrize("size", [80.0, 90.0, 110.0])
def test_elu1_of_very_negative_keys_fades_as_torch_does(size: float) -> None:
    case = Case(Elu1(), normalised=False)
    tensors = case.tensors()
    tensors[1] = -size + tensors[1]
    y, after = values(run, tensors, case.options())
    want, expected = reference(tensors, case.options())
    assert apart(y, want) <= LIMIT[F32] and apart(after.memory, expected.memory) <= LIMIT[F32]


def test_a_call_that_is_not_served_says_why() -> None:
    q, k, v, memory, mass = SMALL.tensors()
    held = state(memory, mass)
    taylor = Taylor(2)
    assert not supports(q, k, v, held, taylor)
    reasons = {
        "Taylor of degree 3 has no native form": (q, k, v, held, Taylor(3, odd=True)),
        "torch.float16 has no native form": (q.half(), k.half(), v.half(), held, taylor),
        "differ in dtype": (q, k.double(), v, held, taylor),
        "accumulates in": (q, k, v, LinearState(memory.double(), *held[1:]), taylor),
        "nothing to compute": (q[:, :0], k[:, :0], v[:, :0], held, taylor),
        "decay is being learned": (q, k, v, held, taylor, None, torch.ones(2, requires_grad=True)),
        "on meta": (*(x.to("meta") for x in (q, k, v)), held, taylor),
    }
    for reason, call in reasons.items():
        assert reason in supports(*call), reason


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # torch's own first jvp
def test_transforms_take_the_torch_path_and_are_right() -> None:
    q, k, v, memory, mass = SMALL.tensors(F64)
    options = SMALL.options()

    def y(q):
        return linear.chunked(q, k, v, state(memory, mass), **options)[0]

    assert ACCELERATOR in linear._accelerators
    tangent = torch.randn_like(q)
    _, forward = torch.func.jvp(y, (q,), (tangent,))
    step = (y(q + 1e-6 * tangent) - y(q - 1e-6 * tangent)) / 2e-6
    assert apart(forward, step) <= 1e-7
    assert apart(torch.func.vmap(y)(torch.stack([q, 2 * q]))[1], y(2 * q)) <= 1e-12


def test_an_instruction_set_that_is_not_here_is_refused() -> None:
    from threefold.errors import InputError

    with pytest.raises(InputError, match="choose one of these"), native.forced("altivec"):
        pass
