"""Costs against length as a picture: one panel a measure, both axes logarithmic, where two models cross marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from threefold.cost import Number
from threefold.errors import InputError, require
from threefold.plan.solve import crossover

Laws = Mapping[str, Callable[[int], Number]]
LENGTHS = tuple(round(2 ** (4 + at / 4)) for at in range(53))  # 16 to 131,072
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
SUFFIXES = (".svg", ".png", ".pdf")


def draw(models: Sequence[tuple[str, Laws]], where: str) -> str:
    """Write the picture; says where."""
    path = Path(where)
    require(path.suffix in SUFFIXES, f"--plot {where}: give a file that ends in {', '.join(SUFFIXES)}.")
    require(path.parent.is_dir(), f"--plot {where}: there is no folder {path.parent}.")
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise InputError("--plot needs matplotlib: pip install 'threefold[report]'.") from missing
    names = [name for name in models[0][1] if any(_values(laws[name]) for _, laws in models)]
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "plan", "font.size": 9}):
        figure = Figure(figsize=(4.2 * min(2, len(names)), 3.4 * -(-len(names) // 2)), layout="constrained")
        FigureCanvasAgg(figure)
        for at, name in enumerate(names):
            axes = figure.add_subplot(-(-len(names) // 2), min(2, len(names)), at + 1)
            _panel(axes, name, [(model, laws[name]) for model, laws in models])
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150)
    return where


def _values(law: Callable[[int], Number]) -> bool:
    return any(law(length) > 0 for length in LENGTHS)


def _panel(axes: object, name: str, laws: Sequence[tuple[str, Callable[[int], Number]]]) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    for (model, law), colour in zip(laws, COLOURS * len(laws), strict=False):
        axes.plot(LENGTHS, [float(law(length)) for length in LENGTHS], color=colour, label=model)
    for (_, law), colour in list(zip(laws, COLOURS * len(laws), strict=False))[1:]:
        found = crossover(laws[0][1], law)
        if found is None or not LENGTHS[0] <= found[0] <= LENGTHS[-1]:
            continue
        axes.axvline(found[0], color=colour, linewidth=0.7, linestyle=":")
        axes.plot([found[0]], [float(law(found[0]))], "o", color=colour, markersize=4)
        label = f"T = {found[0]:,}"
        axes.annotate(
            label, (found[0], float(law(found[0]))), (4, -10), textcoords="offset points", fontsize=7, color=colour
        )
    axes.set(xscale="log", yscale="log", xlabel="T (tokens)", title=name)
    axes.set_ylabel("bytes" if "memory" in name or "state" in name else "FLOPs")
    axes.grid(True, which="major", linewidth=0.3)
    axes.legend(fontsize=7, frameon=False)
