"""Datasets of the Brain Imaging Data Structure (BIDS): opened, analyzed by subject, and written as derivatives.

::

    dataset = open_dataset("study")
    scans = dataset.files(subject="01", suffix="dwi", datatype="dwi")

What of pybids, ancpbids or bids2table would be used (names, subjects, inheritance) is 200 lines here, which open a
subject without an index of the whole dataset, and tell what is wrong where those leave files out or raise.
"""

from napari_gpubio.workflows.bids.dataset import BidsFile, Dataset, open_dataset

__all__ = ["BidsFile", "Dataset", "open_dataset"]
