"""Riemannian metrics made from diffusion tensors.

A geodesic tracker needs the *dual* metric W = g^-1 only. Every metric here shares the tensor's eigenvectors, so it is
one small function from the tensor's eigenvalues (shape (..., 3), in units of 1e-3 mm^2/s, all positive) to those of W.
A new metric is one more such function with the decorator; both backends, the settings and the dock widget then know it.
The functions use arithmetic that NumPy and CuPy arrays share.
"""

from collections.abc import Callable
from typing import Any

Array = Any  # numpy or cupy
Metric = Callable[[Array, float], Array]
METRICS: dict[str, Metric] = {}


def _metric(function: Metric) -> Metric:
    METRICS[function.__name__] = function
    return function


@_metric
def inverse(eigenvalues: Array, power: float) -> Array:  # noqa: ARG001 - every metric has the same signature
    """g = D^-1, the metric of van Aart et al. 2011: W = D."""
    return eigenvalues


@_metric
def sharpened(eigenvalues: Array, power: float) -> Array:
    """g = D^-p: W = D^p. The larger p, the closer geodesics keep to the principal direction."""
    return eigenvalues**power


@_metric
def adjugate(eigenvalues: Array, power: float) -> Array:  # noqa: ARG001
    """g = det(D) D^-1 (Fuster et al. 2016): W = D / det D. Fluid becomes expensive."""
    return eigenvalues / eigenvalues.prod(axis=-1)[..., None]
