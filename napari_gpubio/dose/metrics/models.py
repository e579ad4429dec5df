"""Metrics that need parameters: equivalent doses, probabilities, and indices of a plan."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from napari_gpubio.dose.metrics.biology import bed, eqd2, generalized_eud, lkb_ntcp, niemierko_tcp
from napari_gpubio.dose.metrics.dvh import Dvh
from napari_gpubio.dose.metrics.indices import gradient_index, homogeneity_index, paddick_index, rtog_index
from napari_gpubio.dose.metrics.parameters import DOSE, NAME, NUMBER, POSITIVE, WHOLE, Parameter

PRESCRIPTION, TARGET = "prescription", "target"
Values = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A metric with named parameters.

    Parameters
    ----------
    name
        As it is written.
    words
        What it is, in a few words.
    parameters
        In the order in which they are written.
    aliases
        Other spellings.
    asks_dose
        Whether the answer is a dose; others are numbers.
    is_share
        Whether the answer is a probability, 0 to 1, which can be asked for in %.
    value
        The answer for a histogram, from the parameters by name.
    changed
        Instead of a value: another histogram, off which another metric is read.
    of_plan
        Instead of both: the answer for a histogram, that of all that is irradiated, and the prescription.
    """

    name: str
    words: str
    parameters: tuple[Parameter, ...] = ()
    aliases: tuple[str, ...] = ()
    asks_dose: bool = False
    is_share: bool = False
    value: Callable[[Dvh, Values], float] | None = None
    changed: Callable[[Dvh, Values], Dvh] | None = None
    of_plan: Callable[[Dvh, Dvh, float], float] | None = None

    @property
    def example(self) -> str:
        """How it is written, with what is needed."""
        return self._written([one for one in self.parameters if one.needed])

    @property
    def full_example(self) -> str:
        """How it is written with all parameters."""
        return self._written(self.parameters)

    def _written(self, shown: Sequence[Parameter]) -> str:
        inner = ["D2cc[Gy]"] if self.changed is not None else []
        told = ", ".join([*inner, *(f"{one.name}={one.example}" for one in shown)])
        return f"{self.name}({told})" if told else self.name


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
    Parameter(name=TARGET, kind=NAME, example="PTV", words="the one structure it is told of", needed=False),
    Parameter(name=PRESCRIPTION, kind=DOSE, example="60Gy", words="instead of the plan's", needed=False),
)

_ALL = (
    Model(
        name="gEUD",
        words="generalized equivalent uniform dose",
        parameters=(_A,),
        asks_dose=True,
        value=lambda dvh, told: generalized_eud(dvh, told["a"]),
    ),
    Model(
        name="EQD2",
        words="a metric of the dose in 2 Gy fractions",
        parameters=(_ALPHA_BETA, _FRACTIONS),
        changed=lambda dvh, told: eqd2(dvh, fractions=int(told["fractions"]), alpha_beta=told["alpha_beta"]),
    ),
    Model(
        name="BED",
        words="a metric of the biologically effective dose",
        parameters=(_ALPHA_BETA, _FRACTIONS),
        changed=lambda dvh, told: bed(dvh, fractions=int(told["fractions"]), alpha_beta=told["alpha_beta"]),
    ),
    Model(
        name="NTCP",
        words="complication probability, Lyman-Kutcher-Burman",
        parameters=(_N, _M, _TD50),
        is_share=True,
        value=lambda dvh, told: lkb_ntcp(dvh, n=told["n"], m=told["m"], td50=told["TD50"]),
    ),
    Model(
        name="TCP",
        words="tumor control probability, Niemierko",
        parameters=(_TCD50, _GAMMA50, _A_OF_TUMOUR),
        is_share=True,
        value=lambda dvh, told: niemierko_tcp(dvh, a=told["a"], tcd50=told["TCD50"], gamma50=told["gamma50"]),
    ),
    Model(
        name="HI",
        words="homogeneity index of a target, ICRU 83",
        value=lambda dvh, told: homogeneity_index(dvh),  # noqa: ARG005 - as of the others
    ),
    Model(
        name="Paddick CI",
        words="conformity index of a target, Paddick",
        parameters=_OF_PLAN,
        aliases=("PCI", "CI Paddick"),
        of_plan=paddick_index,
    ),
    Model(
        name="RTOG CI",
        words="conformity index of a target, RTOG",
        parameters=_OF_PLAN,
        aliases=("CI RTOG",),
        of_plan=rtog_index,
    ),
    Model(
        name="GI",
        words="gradient index of a plan, Paddick and Lippitz",
        parameters=_OF_PLAN,
        of_plan=lambda _, everything, prescription: gradient_index(everything, prescription),
    ),
)
MODELS: Mapping[str, Model] = {model.name: model for model in _ALL}
_AMBIGUOUS = {"ci": "Paddick CI or RTOG CI", "eud": "gEUD"}


def model_named(name: str) -> Model | None:
    """The model with a name or alias; letter case does not matter."""
    wanted = " ".join(name.split()).casefold()
    return next((m for m in _ALL if wanted in (one.casefold() for one in (m.name, *m.aliases))), None)


def clearer_name(name: str) -> str:
    """What is to be written instead of a name that can mean several, or nothing."""
    return _AMBIGUOUS.get(" ".join(name.split()).casefold(), "")
