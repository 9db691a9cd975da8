"""Kernels by brute force: the reference that `rndlib.kernels` is held against. Shares no code with it.

The pair (u, v) of variances q, q' and angle h (its cosine is the correlation) is written in polar coordinates,
u = sqrt(q) r cos t and v = sqrt(q') r cos(t - h), and integrated by Gauss-Legendre rules in r and in t, the
latter cut at the four rays where u or v is zero: there relu has its kink and the others are steepest.

Layers hand on the angle, from E[(u/sqrt q - v/sqrt q')^2], rather than the correlation, so that nearly equal
points lose no digits.
"""

import numpy as np
from scipy.special import erf

FUNCTIONS = {
    "silu": lambda u: u * 0.5 * (1 + np.tanh(u / 2)),
    "relu": lambda u: np.where(u > 0, u, 0.0),
    "erf": erf,
    "gelu": lambda u: u * 0.5 * (1 + erf(u / np.sqrt(2))),
    "tanh": np.tanh,
    "softplus": lambda u: np.logaddexp(u, 0),
    "elu": lambda u: np.where(u > 0, u, np.expm1(np.minimum(u, 0))),
    "leaky_relu": lambda u: np.where(u > 0, u, 0.01 * u),
    "sin": np.sin,
}
DERIVATIVES = {
    "silu": lambda u: 0.5 * (1 + np.tanh(u / 2)) + u * 0.25 * (1 - np.tanh(u / 2) ** 2),
    "relu": lambda u: np.where(u > 0, 1.0, 0.0),
    "erf": lambda u: 2 / np.sqrt(np.pi) * np.exp(-(u**2)),
    "gelu": lambda u: 0.5 * (1 + erf(u / np.sqrt(2))) + u * np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi),
    "tanh": lambda u: 1 - np.tanh(u) ** 2,
    "softplus": lambda u: 0.5 * (1 + np.tanh(u / 2)),
    "elu": lambda u: np.where(u > 0, 1.0, np.exp(np.minimum(u, 0))),
    "leaky_relu": lambda u: np.where(u > 0, 1.0, 0.01),
    "sin": np.cos,
}


def kernel(net, X1, X2, nodes):
    """(kappa, Theta, body) at all pairs of rows, with `nodes` nodes in r and on each of the four arcs."""
    return np.array([[entry(net, x1, x2, nodes) for x2 in X2] for x1 in X1]).transpose(2, 0, 1)


def entry(net, x1, x2, nodes):
    a = np.append(net.sigma_w / np.sqrt(net.in_dim) * x1, net.sigma_b)
    b = np.append(net.sigma_w / np.sqrt(net.in_dim) * x2, net.sigma_b)
    q1, q2 = a @ a, b @ b
    angle = 2 * np.arcsin(np.linalg.norm(a / np.sqrt(q1) - b / np.sqrt(q2)) / 2)
    f, df = FUNCTIONS[net.activation], DERIVATIVES[net.activation]
    kappa = theta = np.sqrt(q1 * q2) * np.cos(angle)
    body = 0.0
    for _ in range(net.depth - 1):
        cos1, cos2, r, weight = rule(angle, nodes)
        u, v = np.sqrt(q1) * r * cos1, np.sqrt(q2) * r * cos2
        fu, fv = f(u), f(v)
        # The variances of the next layer from the same nodes: each is a one-dimensional integral in disguise.
        next1 = net.sigma_w**2 * np.sum(weight * fu**2) + net.sigma_b**2
        next2 = net.sigma_w**2 * np.sum(weight * fv**2) + net.sigma_b**2
        apart = net.sigma_w**2 * np.sum(weight * (fu / np.sqrt(next1) - fv / np.sqrt(next2)) ** 2)
        apart += net.sigma_b**2 * (1 / np.sqrt(next1) - 1 / np.sqrt(next2)) ** 2
        kappa = net.sigma_w**2 * np.sum(weight * fu * fv) + net.sigma_b**2
        body = theta * net.sigma_w**2 * np.sum(weight * df(u) * df(v))
        theta = body + kappa
        q1, q2, angle = next1, next2, 2 * np.arcsin(np.sqrt(apart) / 2)
    return kappa, theta, body


def rule(angle, nodes):
    """cos t and cos(t - angle) as a row, r as a column, and the weights of the standard normal in the plane."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    r, weight_r = 6.5 * (x + 1), 6.5 * w  # up to 13, where exp(-r^2 / 2) is 2e-37
    arcs = np.array([angle, np.pi - angle, angle, np.pi - angle])
    into = arcs[:, None] * (x + 1) / 2  # distance from the ray that opens the arc, so that no digits are lost
    weight_t = (arcs[:, None] / 2 * w).ravel()
    # The arcs open at t = -pi/2 (u = 0), angle - pi/2 (v = 0), pi/2 and angle + pi/2.
    sin = np.sin
    cos1 = np.concatenate([sin(into[0]), sin(into[1] + angle), -sin(into[2]), -sin(into[3] + angle)])
    cos2 = np.concatenate([-sin(angle - into[0]), sin(into[1]), sin(angle - into[2]), -sin(into[3])])
    return cos1, cos2, r[:, None], np.outer(weight_r * r * np.exp(-(r**2) / 2) / (2 * np.pi), weight_t)
