"""What time gates hold: the path of light in a closed box of mirrors, and the phase of modulated light."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from common import line

from napari_gpubio.core.device import Device
from napari_gpubio.light import LightSettings, simulate
from napari_gpubio.optics import Domain, Isotropic, Medium
from napari_gpubio.probes import modulation_gates_ns
from napari_gpubio.probes.jacobians.modulation import modulation_weights

Array = np.ndarray[Any, Any]
LIGHT_MM_PER_NS, N = 299.792458, 1.37
EDGES_MM, FREE_PATHS_MM, GATES_PS = (1, 2, 4), (0.1, 2.0, 20.0), (20, 50, 100)
FREQUENCIES_MHZ = (100.0, 300.0)
BOX_COLUMNS = ("voxel, mm", "free path, mm", "gate, ps", "first / (c/n) dt", "last", "worst beside 1")
PHASE_COLUMNS = ("MHz", "gates", "number", "rms of the phase's error, mrad", "largest")
_BOX_MM, _COUNT = 8, 5
_FINE_NS = 1e-3


def box_rows(device: Device, photons: int) -> Iterator[dict[str, Any]]:
    """Path in each of five gates over (c / n) dt, without absorption: 1 whatever scatters, in voxels of any size."""
    for edge, free_path, gate in itertools.product(EDGES_MM, FREE_PATHS_MM, GATES_PS):
        medium = Medium(label=1, mus_per_mm=1 / free_path, n=N)
        affine = np.diag([edge, edge, edge, 1.0])
        domain = Domain(labels=np.ones((_BOX_MM // edge,) * 3, np.uint8), affine=affine, media=(medium,))
        gates = tuple(np.arange(_COUNT + 1) * gate * 1e-3)
        settings = LightSettings(photons=photons, faces=("mirror",) * 6, time_gates_ns=gates)
        middle = (_BOX_MM - edge) / 2 + 0.1
        result = simulate(domain, Isotropic(position_mm=(middle,) * 3), settings, device=device)
        path = result.gates.sum(axis=(0, 1, 2), dtype=np.float64) * edge**3
        shares = path * N / (LIGHT_MM_PER_NS * gate * 1e-3)
        yield {
            "voxel_mm": edge, "free_path_mm": free_path, "gate_ps": gate, "first": float(shares[0]),
            "last": float(shares[-1]), "worst": float(np.abs(shares - 1).max()),
        }  # fmt: skip


def phase_rows(device: Device, photons: int) -> Iterator[dict[str, Any]]:
    """Phase of light around a source in tissue, in some gates against the same photons in gates of a picosecond."""
    medium = Medium(label=1, mua_per_mm=0.02, mus_per_mm=10.0, g=0.9, n=N)
    domain = Domain(labels=np.ones((15,) * 3, np.uint8), affine=np.eye(4), media=(medium,))
    source, end = Isotropic(position_mm=(7.0, 7.0, 7.0)), 1.0
    for frequency in FREQUENCIES_MHZ:
        width = 20.0 / frequency  # ns, a fiftieth of a period
        chosen = {
            "a picosecond": tuple(np.arange(round(end / _FINE_NS) + 1) * _FINE_NS),
            "modulation_gates_ns": modulation_gates_ns(frequency, end),
            "a fiftieth of a period": tuple(np.arange(int(np.ceil(end / width)) + 1) * width),
        }
        fields = {}
        for name, gates in chosen.items():
            result = simulate(domain, source, LightSettings(photons=photons, time_gates_ns=gates), device=device)
            fields[name] = result.gates.astype(np.float64) @ modulation_weights(gates, frequency)
        exact = fields.pop("a picosecond")
        for name, field in fields.items():
            phase = 1e3 * np.angle(field / exact)
            yield {
                "mhz": frequency, "gates": name, "number": len(chosen[name]) - 1,
                "rms_mrad": float(np.sqrt(np.mean(phase**2))), "largest_mrad": float(np.abs(phase).max()),
            }  # fmt: skip


def box_line(row: dict[str, Any]) -> str:
    """A line of the table of the box."""
    parts = (f"{row['first']:.5f}", f"{row['last']:.5f}", f"{row['worst']:.1e}")
    return line(f"{row['voxel_mm']}", f"{row['free_path_mm']:g}", f"{row['gate_ps']}", *parts)


def phase_line(row: dict[str, Any]) -> str:
    """A line of the table of phases."""
    parts = (f"{row['rms_mrad']:.3f}", f"{row['largest_mrad']:.3f}")
    return line(f"{row['mhz']:g}", row["gates"], f"{row['number']}", *parts)
