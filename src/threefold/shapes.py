"""The legend of axes. Every shape annotation, plan and table uses these letters and no others.

A lower-case spelling of a letter inside a jaxtyping annotation (`Float[Tensor, "b t d"]`) is the same axis.
"""

AXES: dict[str, str] = {
    "B": "batch: rows that never see each other",
    "T": "time: positions of the sequence that is being mixed",
    "S": "source time: positions of a remembered memory, or the keys that a query may see",
    "D": "width of the residual stream",
    "H": "heads",
    "G": "key/value heads (grouped attention: H is a multiple of G)",
    "K": "key (and query) dimension of one head",
    "V": "value dimension of one head",
    "F": "features: dimension of phi(k)",
    "N": "hidden width of a recurrent cell",
}
