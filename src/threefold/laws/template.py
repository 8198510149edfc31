"""The file to start a derivation from: what is given, what is owed, and one line that is right."""

from __future__ import annotations

from threefold.laws.derivation import cell_of, shapes_of

PAGE = '''"""The backward of one {like} through time, by hand. Grade it as often as you like:

    threefold laws gradient my_{file}.py:backward --like {like}

Forward, for t = 1 ... T; columns, so that a value is (size, m) for a batch of m:

{lines}
    z = W_y {said} + b_y,  y_hat = softmax(z),  L = sum over t and batch of -y . log y_hat

`s` holds these by name, `s.{said}[t]` being {said} at one step (`{said}_prev[t]` is what it received from step t - 1):

{given}

Return a dict with as many of these as you have. A total such as d{said} holds everything that reaches {said}: from its
own step's output (d{said}_out) and from the next step (d{said}_prev of step t + 1). Those marked * are owed, the others
are steps on the way: the more you return, the more exactly a mistake is found.

{owed}
"""

import numpy as np


def backward(s):
    dz = s.y_hat - s.y
    d{said}_out = np.stack([s.W_y.T @ dz[t] for t in range(len(s.x))])
    return {{"dz": dz, "d{said}_out": d{said}_out}}
'''


def template(like: str) -> str:
    """A Python file that runs, and whose grade is: two right, the rest missing."""
    cell = cell_of(like)
    given, gradients = shapes_of(cell)
    owed = {f"d{name}" for name in (*(g for g in given if g.startswith(("W_", "b_"))), "x")}
    owed |= {f"d{part}0" for part in cell.parts}
    return PAGE.format(
        like=like,
        file=like.replace("-", "_"),
        said=cell.parts[0],
        lines="\n".join(f"    {line}" for line in cell.lines),
        given=_table(given),
        owed=_table({f"{name}{' *' if name in owed else ''}": shape for name, shape in gradients.items()}),
    )


def _table(named: dict[str, str], columns: int = 4) -> str:
    cells = [f"{name:<11}{shape}" for name, shape in named.items()]
    rows = [cells[i : i + columns] for i in range(0, len(cells), columns)]
    return "\n".join("    " + "".join(f"{cell:<28}" for cell in row).rstrip() for row in rows)
