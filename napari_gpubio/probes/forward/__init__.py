"""Forward models of fNIRS and diffuse optical tomography: how each pair's optical density changes with absorption.

From a probe file and a segmented head to sparse matrices, with errors::

    head = probes.forward.Head(labels=labels, affine=affine, tissues=probes.forward.head_tissues("Cassano 2019"))
    probe = probes.forward.register(probes.forward.read_probe("probe.snirf"), landmarks_mm=landmarks_of_the_head)
    model = probes.forward.forward_model(head, probe, labels=("gray matter",))
    model.matrix(760)  # mean path lengths, mm, pairs by voxels
"""

from napari_gpubio.probes.forward.io import Surface, read_unfinished, write_adot, write_model, write_npz
from napari_gpubio.probes.forward.model import (
    Head,
    Pair,
    Probe,
    TabulatedTissue,
    head_names,
    head_tissues,
    read_probe,
)
from napari_gpubio.probes.forward.place import Placement, place, register
from napari_gpubio.probes.forward.result import ForwardModel, WavelengthModel
from napari_gpubio.probes.forward.run import forward_model, forward_model_steps
from napari_gpubio.probes.forward.settings import DiffuseOptode, FiberOptode, ForwardSettings, PencilOptode

__all__ = [
    "DiffuseOptode",
    "FiberOptode",
    "ForwardModel",
    "ForwardSettings",
    "Head",
    "Pair",
    "PencilOptode",
    "Placement",
    "Probe",
    "Surface",
    "TabulatedTissue",
    "WavelengthModel",
    "forward_model",
    "forward_model_steps",
    "head_names",
    "head_tissues",
    "place",
    "read_probe",
    "read_unfinished",
    "register",
    "write_adot",
    "write_model",
    "write_npz",
]
