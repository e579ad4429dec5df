"""Philox4x32-10 (Salmon et al., SC11): random numbers that depend on (seed, item, draw) and on nothing else.

The counterpart of ``philox.cuh``. Because a work item's numbers do not depend on who computes it or when, the chunking,
the number of threads or GPUs and a retry cannot change a result.
"""

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import helper, kernel, leaf, run_blocks

_U32, _U64, _F32 = np.uint32, np.uint64, np.float32


@helper
def philox4x32(
    key0: np.uint32, key1: np.uint32, c0: np.uint32, c1: np.uint32, c2: np.uint32, c3: np.uint32
) -> tuple[np.uint32, np.uint32, np.uint32, np.uint32]:
    """Ten rounds of Philox on one 128-bit counter with a 64-bit key: four times 32 random bits."""
    k0, k1 = key0, key1
    for _ in range(10):
        p = _U64(0xD2511F53) * _U64(c0)
        q = _U64(0xCD9E8D57) * _U64(c2)
        c0, c1 = _U32(_U32(q >> _U64(32)) ^ c1 ^ k0), _U32(q)
        c2, c3 = _U32(_U32(p >> _U64(32)) ^ c3 ^ k1), _U32(p)
        k0 = _U32(k0 + _U32(0x9E3779B9))
        k1 = _U32(k1 + _U32(0xBB67AE85))
    return c0, c1, c2, c3


@leaf
def unit_float(bits: np.uint32) -> np.float32:
    """32 random bits as a float32 in the open interval (0, 1); 23 of the bits are used."""
    return _F32((_F32(bits >> _U32(9)) + _F32(0.5)) * _F32(1.1920928955078125e-07))


@kernel
def _fill(start: int, stop: int, seed: np.uint64, first_item: np.uint64, out: npt.NDArray[np.float32]) -> None:
    key0, key1 = _U32(seed & _U64(0xFFFFFFFF)), _U32(seed >> _U64(32))
    draws = out.shape[1]
    for i in range(start, stop):
        item = first_item + _U64(i)
        for block in range((draws + 3) // 4):
            four = philox4x32(key0, key1, _U32(block), _U32(item & _U64(0xFFFFFFFF)), _U32(item >> _U64(32)), _U32(0))
            for d in range(4 * block, min(4 * block + 4, draws)):
                out[i, d] = unit_float(four[d - 4 * block])


def uniform(seed: int, first_item: int, items: int, draws: int) -> npt.NDArray[np.float32]:
    """Uniform random numbers in (0, 1) of a run of work items.

    Parameters
    ----------
    seed
        The run's seed, 64 bits.
    first_item
        Global index of the first item, 64 bits.
    items, draws
        Number of items, and of draws for each.

    Returns
    -------
    ndarray
        Float32 array of shape ``(items, draws)``; row ``i`` depends on ``seed`` and ``first_item + i`` only.
    """
    out = np.empty((items, draws), np.float32)
    run_blocks(_fill, items, np.uint64(seed), np.uint64(first_item), out, least=10_000)
    return out
