"""The projection of a vector on the signal of a symmetric matrix (Numba), which ``problem.py`` describes.

As the functions of the same names in ``mppca.cu``.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import helper, leaf
from napari_gpubio.diffusion.kernels.mppca.problem import PcaProblem, rotation_room, sweep_room

Array = npt.NDArray[Any]
_LANES = 8  # rows of matrices are padded to so many numbers


class PcaScratch(NamedTuple):
    """Memory of one call of `denoise_voxels`; E faces of F voxels, matrices of r rows, which are padded to P numbers.

    With m <= n volumes, ``faces`` has the signals of each face and ``sums`` the sum of their outer products, shapes
    (E, F, P) and (E, r, P). Else ``faces`` has the signals of the window with a row for each volume, shape (1, m, P),
    and ``sums`` their Gram matrix, shape (1, r, P); the faces lie side by side in both.
    """

    faces: Array
    sums: Array
    filled: Array  # (E,): the place along z that each face was last filled for
    matrix: Array  # (r, P)
    reflector: Array  # (P,), as the following ones
    product: Array
    y: Array
    diagonal: Array
    beside: Array
    factor: Array
    place: Array
    rotations: Array  # (rotation_room, 2): cosine and sine
    sweeps: Array  # (sweep_room, 2): from which row to which


def make_scratch(p: PcaProblem) -> PcaScratch:
    """Memory for a call of the kernel."""
    padded = -(-p.size // _LANES) * _LANES
    faces, in_face = p.window[2], p.window[0] * p.window[1]
    by_volumes = p.size == p.volumes

    def vector() -> Array:
        return np.zeros(padded)

    # what is not filled in each time must be 0: the padding, which is added and multiplied, too
    return PcaScratch(
        faces=np.zeros((faces, in_face, padded) if by_volumes else (1, p.volumes, padded), p.real),
        sums=np.zeros((faces if by_volumes else 1, p.size, padded), p.real),
        filled=np.full(faces, -1),
        matrix=np.zeros((p.size, padded), p.real),
        reflector=np.zeros(padded, p.real),
        product=np.zeros(padded, p.real),
        y=vector(),
        diagonal=vector(),
        beside=vector(),
        factor=vector(),
        place=np.zeros(padded, np.int64),
        rotations=np.empty((rotation_room(p.size), 2)),
        sweeps=np.empty((sweep_room(p.size), 2), np.int64),
    )


@leaf
def dot(a: Array, b: Array, count: int) -> float:
    """Scalar product of the first numbers of two vectors, in four sums that do not wait for each other."""
    s0 = s1 = s2 = s3 = a[0] * b[0] * 0
    whole = count - count % 4
    for k in range(0, whole, 4):
        s0 += a[k] * b[k]
        s1 += a[k + 1] * b[k + 1]
        s2 += a[k + 2] * b[k + 2]
        s3 += a[k + 3] * b[k + 3]
    for k in range(whole, count):
        s0 += a[k] * b[k]
    return (s0 + s1) + (s2 + s3)


@helper
def reduce_to_tridiagonal(s: PcaScratch, size: int) -> None:
    """Reflections from the last row to the second; row i keeps its reflector, ``factor[i]`` the half of its square."""
    matrix, v, p, y = s.matrix, s.reflector, s.product, s.y
    for i in range(size - 1, 0, -1):
        for k in range(i):
            v[k] = matrix[i, k]
        s.diagonal[i] = matrix[i, i]
        last = v[i - 1]
        rest = dot(v, v, i - 1) if i > 1 else last * 0
        if not rest > 0:
            s.beside[i - 1], s.factor[i] = last, 0
            continue
        norm = np.sqrt(rest + last * last)
        if last > 0:
            norm = -norm
        s.beside[i - 1] = norm
        v[i - 1] = last - norm
        half = (rest + v[i - 1] * v[i - 1]) / 2
        s.factor[i] = half
        matrix[i, i - 1] = v[i - 1]
        inverse = 1 / half
        for k in range(i):
            p[k] = 0
        for j in range(i):
            for k in range(i):
                p[k] += v[j] * matrix[j, k]
        along = dot(v, p, i) * inverse * inverse / 2
        for k in range(i):
            p[k] = p[k] * inverse - along * v[k]
        for j in range(i):
            vj, pj = v[j], p[j]
            for k in range(i):
                matrix[j, k] -= vj * p[k] + pj * v[k]
        share = dot(v, y, i) * inverse
        for k in range(i):
            y[k] -= share * v[k]
    s.diagonal[0] = matrix[0, 0]
    s.beside[size - 1] = 0


@helper
def undo_reflections(s: PcaScratch, size: int) -> None:
    """Apply the kept reflections to y in reverse."""
    matrix, v, y = s.matrix, s.reflector, s.y
    for i in range(1, size):
        if s.factor[i] > 0:
            for k in range(i):
                v[k] = matrix[i, k]
            share = dot(v, y, i) / s.factor[i]
            for k in range(i):
                y[k] -= share * v[k]


@helper
def diagonalize(s: PcaScratch, size: int, tiny: float) -> int:
    """Implicit QL of the tridiagonal matrix, also of the row y; the number of sweeps, or -1 if it does not converge."""
    d, e, y, rotations, sweeps = s.diagonal, s.beside, s.y, s.rotations, s.sweeps
    done = swept = 0
    for low in range(size):
        while True:
            high = low
            while high < size - 1 and abs(e[high]) > tiny * (abs(d[high]) + abs(d[high + 1])):
                high += 1
            if high == low:
                break
            if swept >= len(sweeps) or done + high - low > len(rotations):
                return -1
            g = (d[low + 1] - d[low]) / (2 * e[low])
            r = math.sqrt(g * g + 1)
            g = d[high] - d[low] + e[low] / (g + (r if g >= 0 else -r))
            sine = cosine = np.float64(1)
            shift = np.float64(0)
            sweeps[swept, 0] = high
            end = low
            for i in range(high - 1, low - 1, -1):
                f, b = sine * e[i], cosine * e[i]
                r = math.sqrt(f * f + g * g)
                e[i + 1] = r
                if r == 0:
                    d[i + 1] -= shift
                    end = i + 1
                    break
                inverse = 1 / r
                sine, cosine = f * inverse, g * inverse
                g = d[i + 1] - shift
                r = (d[i] - g) * sine + 2 * cosine * b
                shift = sine * r
                d[i + 1] = g + shift
                g = cosine * r - b
                y0, y1 = y[i], y[i + 1]
                y[i], y[i + 1] = cosine * y0 - sine * y1, sine * y0 + cosine * y1
                rotations[done, 0], rotations[done, 1] = cosine, sine
                done += 1
            sweeps[swept, 1] = end
            swept += 1
            if end == low:
                d[low] -= shift
                e[low] = g
            e[high] = 0
    return swept


@helper
def undo_rotations(s: PcaScratch, swept: int) -> None:
    """Apply the kept rotations to y in reverse."""
    y, rotations, sweeps = s.y, s.rotations, s.sweeps
    done = 0
    for n in range(swept):
        done += sweeps[n, 0] - sweeps[n, 1]
    for n in range(swept - 1, -1, -1):
        for i in range(sweeps[n, 1], sweeps[n, 0]):
            done -= 1
            cosine, sine = rotations[done, 0], rotations[done, 1]
            y0, y1 = y[i], y[i + 1]
            y[i], y[i + 1] = cosine * y0 + sine * y1, cosine * y1 - sine * y0


@helper
def split(s: PcaScratch, size: int, longer: int, exact: bool) -> tuple[int, float]:
    """Number of noise components and their variance; coefficients y of the noise become 0.

    Of the ascending eigenvalues l_i (divided by q) the first p are noise where (l_p - l_1) / (4 sqrt(gamma)) is less
    than their mean, for the largest such p; gamma is p / q (exp1: Veraart et al. 2016) or p / (q - (r - p)) (exp2:
    Cordero-Grande et al. 2019).
    """
    d, e, place = s.diagonal, s.beside, s.place
    for i in range(size):
        if not d[i] > 0:
            d[i] = 0
    for i in range(size):
        before = 0
        for j in range(size):
            before += d[j] < d[i] or (d[j] == d[i] and j < i)
        place[i] = before
        e[before] = d[i] / longer
    total, variance, count = np.float64(0), np.float64(0), 0
    for p in range(1, size + 1):
        total += e[p - 1]
        gamma = p / (longer - (size - p) if exact else longer)
        if e[p - 1] - e[0] < 4 * math.sqrt(gamma) * (total / p):
            variance, count = total / p, p
    for i in range(size):
        if place[i] < count:
            s.y[i] = 0
    return count, variance
