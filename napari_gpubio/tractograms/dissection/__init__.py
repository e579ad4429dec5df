"""Virtual dissection: the fibers that pass, avoid and end in regions, or whose numbers lie in a range.

Conditions are joined by ``&`` (and), ``|`` (or) and ``~`` (not)::

    from napari_gpubio.tractograms import dissection; from napari_gpubio.fibers import io

    fibers, atlas = io.read_tractogram("brain.trx"), io.read_atlas("aparc+aseg.nii.gz")
    motor, stem = atlas.region("ctx-lh-precentral"), atlas.region("Brain-Stem")
    condition = dissection.ends_in(motor) & dissection.through(stem) & dissection.number("length_mm", 40, 200)
    tract = fibers.select(dissection.dissect(fibers, condition))

A fiber passes a region of voxels if a segment of it does, not only one of its points.
"""

from napari_gpubio.tractograms.dissection.conditions import Condition, connects, ends_in, number, through
from napari_gpubio.tractograms.dissection.run import Dissector, dissect, dissect_steps

__all__ = ["Condition", "Dissector", "connects", "dissect", "dissect_steps", "ends_in", "number", "through"]
