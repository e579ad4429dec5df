"""Indices of a plan: how even the dose in a target is, and how closely the prescription fits it."""

import math

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.metrics.dvh import Dvh


def homogeneity_index(dvh: Dvh) -> float:
    """(D2% - D98%) / D50% of a target, 0 at best (ICRU Report 83); NaN without volume or with D50% = 0."""
    hot, cold, middle = (float(dvh.dose_at_percent(percent)) for percent in (2.0, 98.0, 50.0))
    return (hot - cold) / middle if middle else math.nan


def paddick_index(target: Dvh, everything: Dvh, prescription: float) -> float:
    """Conformity, TV_PIV^2 / (TV PIV), 1 at best (Paddick 2000, J. Neurosurg. 93 Suppl 3:219).

    Parameters
    ----------
    target
        Histogram of the target: TV is its volume, TV_PIV what of it has the prescription.
    everything
        Histogram of all that is irradiated, see `napari_gpubio.dose.whole_dose`: PIV is its volume with
        the prescription.
    prescription
        In units of the dose.

    Returns
    -------
    float
        NaN if the target is empty or no volume has the prescription.
    """
    isodose = _isodose_volume(target, everything, prescription)
    inside, product = float(target.volume_at(prescription)), target.volume_cc * isodose
    return inside**2 / product if product > 0 else math.nan


def rtog_index(target: Dvh, everything: Dvh, prescription: float) -> float:
    """Conformity, PIV / TV, 1 at best (Shaw et al. 1993, Int. J. Radiat. Oncol. 27:1231); see `paddick_index`."""
    isodose = _isodose_volume(target, everything, prescription)
    return isodose / target.volume_cc if target.volume_cc > 0 else math.nan


def gradient_index(everything: Dvh, prescription: float) -> float:
    """Fall-off, volume with half the prescription by PIV (Paddick and Lippitz 2006, J. Neurosurg. 105 Suppl:194).

    Arguments are those of `paddick_index`; NaN if no volume has the prescription.
    """
    isodose = _isodose_volume(everything, everything, prescription)
    return float(everything.volume_at(0.5 * prescription)) / isodose if isodose > 0 else math.nan


def _isodose_volume(target: Dvh, everything: Dvh, prescription: float) -> float:
    """PIV, cc."""
    if not (math.isfinite(prescription) and prescription > 0):
        raise InvalidInput(f"the prescription is {prescription!r}; give a positive dose in {target.unit}")
    if target.unit != everything.unit:
        raise InvalidInput(f"the target's doses are in {target.unit} and the others in {everything.unit}")
    return float(everything.volume_at(prescription))
