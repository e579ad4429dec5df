"""Doses by their effect: equivalent uniform dose, probabilities of harm and control, equivalent fractionation."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.metrics.dvh import Dvh

Array = npt.NDArray[np.float64]
_FINE = 4096  # parts of the largest dose; a curve is straight between its points, however far they are apart


class Parts(NamedTuple):
    """A structure as parts of one dose each.

    Parameters
    ----------
    doses
        In units of the dose, shape (N,).
    shares
        Of the volume, adding to 1, shape (N,).
    """

    doses: Array
    shares: Array


def parts_of(dvh: Dvh) -> Parts:
    """Stretches of a curve with the dose in their middle, long ones in several; none for one without volume."""
    if dvh.is_empty:
        return Parts(np.empty(0), np.empty(0))
    volumes = -np.diff(dvh.volumes_cc)
    low, wide, volumes = dvh.doses[:-1][volumes > 0], np.diff(dvh.doses)[volumes > 0], volumes[volumes > 0]
    counts = np.maximum(np.ceil(wide * (_FINE / max(abs(dvh.least), abs(dvh.largest), 1e-300)) - 1e-6), 1).astype(int)
    place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # in its stretch
    middles = np.repeat(low, counts) + (place + 0.5) * np.repeat(wide / counts, counts)
    return Parts(middles, np.repeat(volumes / counts, counts) / dvh.volume_cc)


def generalized_eud(dvh: Dvh, a: float) -> float:
    """Generalized equivalent uniform dose, (sum of v_i D_i^a)^(1/a) (Niemierko 1999, Med. Phys. 26:1100).

    Parameters
    ----------
    dvh
        Of doses that are not negative.
    a
        1: the mean; large for serial organs; negative for targets.

    Returns
    -------
    float
        In the unit of the dose; NaN for a structure without volume.
    """
    if not math.isfinite(a) or a == 0:
        raise InvalidInput(f"a of the equivalent uniform dose is {a!r}; give a number other than 0")
    doses, shares = parts_of(dvh)
    if len(doses) == 0:
        return math.nan
    if dvh.least < 0:
        raise InvalidInput(f"{dvh.name!r} has negative doses, of which there is no equivalent uniform dose")
    reference = float(doses[-1] if a > 0 else doses[0])  # so that no power overflows
    if reference == 0:
        return 0.0
    return reference * float(np.sum(shares * (doses / reference) ** a)) ** (1.0 / a)


def lkb_ntcp(dvh: Dvh, *, n: float, m: float, td50: float) -> float:
    """Complication probability by Lyman, Kutcher and Burman, 0 to 1; NaN for a structure without volume.

    Phi((gEUD - TD50) / (m TD50)) with a = 1 / n (Kutcher and Burman 1989, Int. J. Radiat. Oncol. 16:1623).

    Parameters
    ----------
    dvh
        Doses as TD50 is meant, usually in 2 Gy fractions: see `eqd2`.
    n
        Volume effect.
    m
        Slope.
    td50
        Uniform dose to all of the organ with a probability of one half, in the unit of the dose.
    """
    for name, value in (("n", n), ("m", m), ("td50", td50)):
        if not (math.isfinite(value) and value > 0):
            raise InvalidInput(f"{name} of the complication probability is {value!r}; give a positive number")
    t = (generalized_eud(dvh, 1.0 / n) - td50) / (m * td50)
    return 0.5 * math.erfc(-t / math.sqrt(2.0))


def niemierko_tcp(dvh: Dvh, *, a: float, tcd50: float, gamma50: float) -> float:
    """Tumor control probability, 0 to 1; NaN for a structure without volume.

    1 / (1 + (TCD50 / gEUD)^(4 gamma50)) (Gay and Niemierko 2007, Phys. Med. 23:115).

    Parameters
    ----------
    dvh
        Doses as TCD50 is meant, usually in 2 Gy fractions: see `eqd2`.
    a
        Of the equivalent uniform dose, negative for tumors: see `generalized_eud`.
    tcd50
        Uniform dose that controls half of the tumors, in the unit of the dose.
    gamma50
        Slope there: by how many % control rises when the dose rises by 1 %.
    """
    for name, value in (("tcd50", tcd50), ("gamma50", gamma50)):
        if not (math.isfinite(value) and value > 0):
            raise InvalidInput(f"{name} of the control probability is {value!r}; give a positive number")
    equivalent = generalized_eud(dvh, a)
    if equivalent == 0:
        return 0.0
    exponent = 4.0 * gamma50 * math.log(tcd50 / equivalent) if not math.isnan(equivalent) else math.nan
    return 0.5 * (1.0 - math.tanh(0.5 * exponent))  # the same, and no power overflows


def bed(dvh: Dvh, *, fractions: int, alpha_beta: float) -> Dvh:
    """The histogram of biologically effective dose, D (1 + (D / fractions) / alpha_beta) (Fowler 1989).

    Parameters
    ----------
    dvh
        Of total dose, Gy.
    fractions
        Equal ones.
    alpha_beta
        Of the tissue, Gy.
    """
    _check_fractionation(dvh, fractions, alpha_beta)
    return _transformed(dvh, 1.0, 1.0 / (fractions * alpha_beta))


def eqd2(dvh: Dvh, *, fractions: int, alpha_beta: float) -> Dvh:
    """The histogram of dose in fractions of 2 Gy with the same effect, BED / (1 + 2 / alpha_beta); see `bed`."""
    _check_fractionation(dvh, fractions, alpha_beta)
    share = 1.0 / (1.0 + 2.0 / alpha_beta)
    return _transformed(dvh, share, share / (fractions * alpha_beta))


def _check_fractionation(dvh: Dvh, fractions: int, alpha_beta: float) -> None:
    if dvh.unit != "Gy":
        raise InvalidInput(f"fractions are counted in Gy and {dvh.name!r} is in {dvh.unit}")
    if fractions < 1 or fractions != int(fractions):
        raise InvalidInput(f"fractions is {fractions!r}; give an integer from 1 on")
    if not (math.isfinite(alpha_beta) and alpha_beta > 0):
        raise InvalidInput(f"alpha_beta is {alpha_beta!r} Gy; give a positive dose")
    if dvh.least < 0:
        raise InvalidInput(f"{dvh.name!r} has negative doses, which have no biological effect")


def _transformed(dvh: Dvh, linear: float, square: float) -> Dvh:
    """Doses become linear D + square D^2, which keeps their order."""
    doses, shares = parts_of(dvh)
    mean = float(np.sum(shares * (linear * doses + square * doses**2))) if len(doses) else math.nan
    return dataclasses.replace(dvh, doses=linear * dvh.doses + square * dvh.doses**2, mean=mean)
