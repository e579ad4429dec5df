"""From the spread of batches of photons to the standard error of a mean per photon, for both engines.

Let B whole batches of n photons have the sums S_i, and r photons that are left over the sum R. Photons are independent,
so a sum over k of them varies by k times the variance v of one photon, and ::

    v (B - 1 + c r (1 + r / (B n)))  =  < sum_i (S_i - S)^2 / n  +  c (R - S r / n)^2 >,    S = sum_i S_i / B

for any c. With c = 1 / max(n, r) the photons left over weigh as they do in the mean. Without them, a place that only
they have reached would have a value and no error; as a batch of their own (c = 1 / r), a single one that came by would
pass for a large deviation.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
FEWEST_BATCHES = 2


def mean_error(whole: Floats, rest: Floats, batch_size: int, rest_photons: int) -> Floats:
    """Return the standard error of a mean per photon; NaN of fewer than two whole batches.

    Parameters
    ----------
    whole
        Sums over each whole batch, shape (B, ...).
    rest
        Sums over the photons that are left over, shape (...).
    batch_size, rest_photons
        Photons of a whole batch, and those left over.
    """
    if len(whole) < FEWEST_BATCHES:
        return np.full(np.shape(rest), np.nan)
    mean = whole.mean(axis=0)
    spread = np.square(whole - mean).sum(axis=0) / batch_size
    spread += np.square(rest - mean * (rest_photons / batch_size)) / max(batch_size, rest_photons)
    photons = len(whole) * batch_size + rest_photons
    return np.asarray(np.sqrt(spread / (freedom(len(whole), batch_size, rest_photons) * photons)))


def freedom(batches: int, batch_size: int, rest_photons: int) -> float:
    """Return how many times the variance of one photon the spread of all of them is: B - 1 + c r (1 + r / (B n))."""
    share = rest_photons / max(batch_size, rest_photons)
    return batches - 1 + share * (1.0 + rest_photons / (batches * batch_size))
