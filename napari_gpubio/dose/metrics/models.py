"""Models of a dose's effect (EUD, NTCP, TCP, BED, EQD2), indices of a plan, and both as metrics with parameters."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.metrics.curve import Dvh
from napari_gpubio.dose.metrics.parameters import DOSE, NAME, NUMBER, POSITIVE, WHOLE, Parameter

Array = npt.NDArray[np.float64]
_FINE = 4096  # parts of the largest dose; a curve is straight between its points, however far they are apart
PRESCRIPTION, TARGET = "prescription", "target"
Values = Mapping[str, float]
_A = Parameter(name="a", kind=NUMBER, example="8", words="1: mean; large: serial organs; negative: targets")
_A_OF_TUMOUR = Parameter(name="a", kind=NUMBER, example="-10", words="of the equivalent uniform dose")
_N = Parameter(name="n", kind=POSITIVE, example="0.35", words="volume effect")
_M = Parameter(name="m", kind=POSITIVE, example="0.1", words="slope")
_TD50 = Parameter(name="TD50", kind=DOSE, example="46Gy", words="uniform dose with a probability of one half")
_TCD50 = Parameter(name="TCD50", kind=DOSE, example="50Gy", words="uniform dose that controls half of the tumors")
_GAMMA50 = Parameter(name="gamma50", kind=POSITIVE, example="2", words="slope at TCD50", aliases=("γ50",))
_ALPHA_BETA = Parameter(
    name="alpha_beta", kind=POSITIVE, example="3", words="of the tissue, Gy", aliases=("alpha/beta", "α/β", "ab")
)
_FRACTIONS = Parameter(name="fractions", kind=WHOLE, example="30", words="equal ones")
_OF_PLAN = (
    Parameter(name=TARGET, kind=NAME, example="PTV", words="the one structure that it is for", needed=False),
    Parameter(name=PRESCRIPTION, kind=DOSE, example="60Gy", words="instead of the plan's", needed=False),
)
_AMBIGUOUS = {"ci": "Paddick CI or RTOG CI", "eud": "gEUD"}


class Parts(NamedTuple):
    """A structure as parts of one dose each."""

    doses: Array  # in units of the dose, shape (N,)
    shares: Array  # of the volume, adding to 1, shape (N,)


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


@dataclass(frozen=True, kw_only=True)
class Model:
    """A metric with named parameters."""

    name: str  # as it is written
    words: str  # what it is, in a few words
    parameters: tuple[Parameter, ...] = ()  # in the order in which they are written
    aliases: tuple[str, ...] = ()  # other spellings
    begins: ClassVar[tuple[str, ...]] = ()  # what stands before the parameters in an example

    @property
    def example(self) -> str:
        """How it is written, with what is needed."""
        return self._written([one for one in self.parameters if one.needed])

    @property
    def full_example(self) -> str:
        """How it is written with all parameters."""
        return self._written(self.parameters)

    def _written(self, shown: Sequence[Parameter]) -> str:
        written = ", ".join([*self.begins, *(f"{one.name}={one.example}" for one in shown)])
        return f"{self.name}({written})" if written else self.name


@dataclass(frozen=True, kw_only=True)
class ValueModel(Model):
    """A model with one number as its answer."""

    value: Callable[[Dvh, Values], float]  # of a histogram, from the parameters by name
    is_dose: bool = False  # whether the value is a dose; others are numbers


@dataclass(frozen=True, kw_only=True)
class ShareModel(ValueModel):
    """A model whose answer is a probability, 0 to 1, which can be given in %."""


@dataclass(frozen=True, kw_only=True)
class DoseModel(Model):
    """A model that makes another histogram, off which another metric is read."""

    begins: ClassVar[tuple[str, ...]] = ("D2cc[Gy]",)
    changed: Callable[[Dvh, Values], Dvh]


@dataclass(frozen=True, kw_only=True)
class PlanModel(Model):
    """An index of a plan."""

    parameters: tuple[Parameter, ...] = _OF_PLAN
    of_plan: Callable[[Dvh, Dvh, float], float]  # of a histogram, that of all that is irradiated, and the prescription


_ALL: tuple[Model, ...] = (
    ValueModel(
        name="gEUD",
        words="generalized equivalent uniform dose",
        parameters=(_A,),
        is_dose=True,
        value=lambda dvh, values: generalized_eud(dvh, values["a"]),
    ),
    DoseModel(
        name="EQD2",
        words="a metric of the dose in 2 Gy fractions",
        parameters=(_ALPHA_BETA, _FRACTIONS),
        changed=lambda dvh, values: eqd2(dvh, fractions=int(values["fractions"]), alpha_beta=values["alpha_beta"]),
    ),
    DoseModel(
        name="BED",
        words="a metric of the biologically effective dose",
        parameters=(_ALPHA_BETA, _FRACTIONS),
        changed=lambda dvh, values: bed(dvh, fractions=int(values["fractions"]), alpha_beta=values["alpha_beta"]),
    ),
    ShareModel(
        name="NTCP",
        words="complication probability, Lyman-Kutcher-Burman",
        parameters=(_N, _M, _TD50),
        value=lambda dvh, values: lkb_ntcp(dvh, n=values["n"], m=values["m"], td50=values["TD50"]),
    ),
    ShareModel(
        name="TCP",
        words="tumor control probability, Niemierko",
        parameters=(_TCD50, _GAMMA50, _A_OF_TUMOUR),
        value=lambda dvh, values: niemierko_tcp(dvh, a=values["a"], tcd50=values["TCD50"], gamma50=values["gamma50"]),
    ),
    ValueModel(
        name="HI",
        words="homogeneity index of a target, ICRU 83",
        value=lambda dvh, values: homogeneity_index(dvh),  # noqa: ARG005 - as of the others
    ),
    PlanModel(
        name="Paddick CI",
        words="conformity index of a target, Paddick",
        aliases=("PCI", "CI Paddick"),
        of_plan=paddick_index,
    ),
    PlanModel(
        name="RTOG CI",
        words="conformity index of a target, RTOG",
        aliases=("CI RTOG",),
        of_plan=rtog_index,
    ),
    PlanModel(
        name="GI",
        words="gradient index of a plan, Paddick and Lippitz",
        of_plan=lambda _, everything, prescription: gradient_index(everything, prescription),
    ),
)
MODELS: Mapping[str, Model] = {model.name: model for model in _ALL}


def model_named(name: str) -> Model | None:
    """The model with a name or alias; letter case does not matter."""
    given = " ".join(name.split()).casefold()
    return next((m for m in _ALL if given in (one.casefold() for one in (m.name, *m.aliases))), None)


def clearer_name(name: str) -> str:
    """What is to be written instead of a name that can mean several, or nothing."""
    return _AMBIGUOUS.get(" ".join(name.split()).casefold(), "")
