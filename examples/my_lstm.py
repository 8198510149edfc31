"""A hand-written backward of an LSTM with one wrong line, to be graded:

threefold laws gradient examples/my_lstm.py:backward --like lstm
"""

import numpy as np


def backward(s):
    """s holds the forward values, columns, time first: `threefold laws template lstm` explains."""
    T, n = len(s.x), len(s.a0)
    d = {f"d{name}": np.zeros_like(s[name]) for name in ("W_u", "W_f", "W_c", "W_o", "b_u", "b_f", "b_c", "b_o")}
    steps = []
    da_next, dc_next = np.zeros_like(s.a0), np.zeros_like(s.c0)
    for t in reversed(range(T)):
        u, f, o, c_tilde = s.Gamma_u[t], s.Gamma_f[t], s.Gamma_o[t], s.c_tilde[t]
        dz = s.y_hat[t] - s.y[t]
        da = s.W_y.T @ dz + da_next
        dc = da * o * (1 - np.tanh(s.c[t]) ** 2) + dc_next
        dgamma_o = da * np.tanh(s.c[t]) * o * (1 - o)
        dgamma_u = dc * c_tilde * u * (1 - u)
        dgamma_f = dc * c_tilde * f * (1 - f)
        dp = dc * u * (1 - c_tilde**2)
        v = np.concatenate([s.a_prev[t], s.x[t]])
        dv = 0
        for gate, signal in (("u", dgamma_u), ("f", dgamma_f), ("c", dp), ("o", dgamma_o)):
            d[f"dW_{gate}"] += signal @ v.T
            d[f"db_{gate}"] += signal.sum(1, keepdims=True)
            dv = dv + s[f"W_{gate}"].T @ signal
        da_prev, dx, dc_prev = dv[:n], dv[n:], dc * f
        da_next, dc_next = da_prev, dc_prev
        steps.append({"dz": dz, "da": da, "dc": dc, "dgamma_o": dgamma_o, "dgamma_u": dgamma_u})
        steps[-1] |= {"dgamma_f": dgamma_f, "dp": dp, "da_prev": da_prev, "dc_prev": dc_prev, "dx": dx}
    d |= {name: np.stack([step[name] for step in reversed(steps)]) for name in steps[0]}
    d |= {"da0": da_next, "dc0": dc_next}
    d["dW_y"] = sum(dz @ a.T for dz, a in zip(d["dz"], s.a, strict=True))
    d["db_y"] = d["dz"].sum((0, 2))
    return d
