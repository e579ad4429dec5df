"""Responses: the signal of one kind of tissue, as zonal harmonics for each shell; text files in MRtrix's format."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import Tabular
from napari_gpubio.core.files import write_text
from napari_gpubio.core.foreign import existing_text
from napari_gpubio.core.reading import reads_file
from napari_gpubio.diffusion.model import B0_LIMIT

TISSUES = ("wm", "gm", "csf")
TISSUE_NAMES = {"wm": "white matter", "gm": "gray matter", "csf": "CSF"}
_SHELLS = "shells:"
_TOLERANCE = 50  # s/mm^2; a scan's shells are rounded to 100


@dataclass(frozen=True, eq=False, kw_only=True)
class Response(Tabular):
    """The signal of a tissue.

    Parameters
    ----------
    coefficients
        Zonal coefficients ``r_0, r_2, ...`` of every shell, smallest b-value first, shape (B, L); of white matter those
        of fibers along z, of the others ``r_0`` alone.
    bvals
        b-value of each row in s/mm^2; empty if it is not known.
    path
        The file it came from, or None.
    parameters
        How it was made; only what JSON can hold.
    complete
        False if the search for its voxels was stopped before its end.
    notes
        What to know about its voxels, as sentences.

    Raises
    ------
    InvalidInput
        If the coefficients are no finite table, or there are other b-values than rows.
    """

    coefficients: npt.NDArray[np.float64]
    bvals: tuple[int, ...] = ()
    path: Path | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = True
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        try:
            table = np.atleast_2d(np.asarray(self.coefficients, np.float64))
        except ValueError:
            raise InvalidInput("a response is a table of numbers; give rows of one length, one a shell") from None
        if table.ndim != 2 or not table.size:
            raise InvalidInput(f"a response has coefficients for each shell, shape (B, L); these have {table.shape}")
        if not np.isfinite(table).all():
            raise InvalidInput(f"the response has coefficients that are not finite: {table.ravel()[:8].tolist()}")
        if self.bvals and len(self.bvals) != len(table):
            raise InvalidInput(f"the response has {len(table)} rows and {len(self.bvals)} b-values; give one for each")
        object.__setattr__(self, "coefficients", table)

    @property
    def lmax(self) -> int:
        """Largest order."""
        return 2 * (self.coefficients.shape[1] - 1)

    def of_shell(self, bval: int, shells: list[int]) -> npt.NDArray[np.float64]:
        """Coefficients for one shell of a scan, shape (L,).

        Parameters
        ----------
        bval
            b-value of the shell; the row of the nearest one counts if it is no more than 50 s/mm^2 away, since MRtrix
            writes the mean of the volumes' b-values.
        shells
            Those of the scan, in order. Where the response does not know its b-values, it has a row for each of them,
            or one for the largest.

        Raises
        ------
        InvalidInput
            If the response has none for it.
        """
        bvals = list(self.bvals) or (shells if len(self.coefficients) == len(shells) else shells[-1:])
        apart = [abs(own - bval) if (own <= B0_LIMIT) == (bval == 0) else np.inf for own in bvals]
        if len(bvals) != len(self.coefficients) or min(apart) > _TOLERANCE:
            known = ", ".join(map(str, self.bvals)) or f"{len(self.coefficients)} shells"
            raise InvalidInput(
                f"the response is for {known} and the scan has the shells {', '.join(map(str, shells))} s/mm²; "
                f"b = {bval} is missing: use the response of this scan"
            )
        return np.asarray(self.coefficients[int(np.argmin(apart))])


def check_tissues(responses: Sequence[Response]) -> None:
    """Check that the responses of several tissues are in order: that of white matter first, and no other like it.

    Raises
    ------
    InvalidInput
        If the first has one coefficient for each shell, or another has several, or CSF decays no faster than gray
        matter.
    """
    if not responses:
        raise InvalidInput("there is no response; give one, or those of tissues")
    first, *others = responses
    if others and (first.lmax == 0 or any(other.lmax > 0 for other in others)):
        counts = ", ".join(str(response.coefficients.shape[1]) for response in responses)
        raise InvalidInput(
            f"the responses have {counts} coefficients for each shell; the first must be that of white matter, which "
            "has several, and those of gray matter and CSF have one: give them in this order"
        )
    shares = [_share_left(other) for other in others]
    if len(shares) > 1 and shares[0] <= shares[1]:
        raise InvalidInput(
            f"of the second response {shares[0]:.2g} of the signal is left at the largest b-value and of the third "
            f"{shares[1]:.2g}; that of CSF, the third, must decay faster than that of gray matter: "
            + ("swap them" if shares[0] < shares[1] else "give two different responses, with a row for each shell")
        )


def in_tissue_order(responses: Sequence[Response]) -> tuple[Response, ...]:
    """Return the responses of several tissues as white matter, gray matter and CSF, whose signal decays fastest.

    Raises
    ------
    InvalidInput
        If there are more than three, or not one alone has several coefficients for each shell.
    """
    if len(responses) > len(TISSUES):
        raise InvalidInput(f"there are {len(responses)} responses; give one, or two or three of tissues")
    ordered = tuple(sorted(responses, key=lambda one: (one.lmax == 0, -_share_left(one))))
    check_tissues(ordered)
    return ordered


def _share_left(response: Response) -> float:
    """Signal at the largest b-value over that at the smallest."""
    order = np.argsort(response.bvals) if response.bvals else [0, -1]
    first, last = response.coefficients[[order[0], order[-1]], 0]
    return float(last / first) if first > 0 else 0.0


@reads_file
def read_response(path: str | Path) -> Response:
    """Read a response from a text file: a row of zonal coefficients for every shell, ``#`` before comments.

    Raises
    ------
    InvalidInput
        If the file is missing or has words that are no finite numbers, or rows of different lengths.
    """
    path = Path(path)
    rows, bvals = list[list[float]](), tuple[int, ...]()
    for number, line in enumerate(existing_text(path, other="latin-1").splitlines(), 1):
        place = f"line {number} of {path.name}"
        text, _, comment = line.partition("#")
        if comment.strip().lower().startswith(_SHELLS):
            bvals = tuple(map(round, _numbers(comment.strip()[len(_SHELLS) :], place)))
        rows += [_numbers(text, place)] if text.strip() else []
    if not rows or len({len(row) for row in rows}) > 1:
        lengths = sorted({len(row) for row in rows})
        raise InvalidInput(f"{path.name} has {len(rows)} rows of {lengths} numbers; all rows need the same number")
    return Response(coefficients=np.array(rows), bvals=bvals if len(bvals) == len(rows) else (), path=path)


def _numbers(text: str, place: str) -> list[float]:
    found = list[float]()
    for word in text.replace(",", " ").split():
        try:
            found.append(float(word))
        except ValueError:
            found.append(math.nan)
        if not math.isfinite(found[-1]):
            raise InvalidInput(
                f"{place} has {word[:40]!r}, which is no finite number; a response has a row of numbers for each "
                f"shell, and b-values behind {_SHELLS!r}"
            )
    return found


def write_response(path: str | Path, response: Response) -> None:
    """Write a response as a text file that MRtrix reads."""
    lines = [f"# Shells: {','.join(map(str, response.bvals))}"] if response.bvals else []
    lines += [" ".join(f"{value:.10g}" for value in row) for row in response.coefficients]
    write_text(Path(path), "\n".join(lines) + "\n")
