"""
FA along a bundle
=================

The front of the corpus callosum from left to right, in a scan and with more noise: mean and spread of the fibers.
"""

import matplotlib.pyplot as plt
import numpy as np

from napari_gpubio import diffusion, fibers, tractograms

scan = diffusion.phantom.load_brain_phantom()
field = diffusion.fit_tensors(scan)
seeds = fibers.seeds.ball((0, 28, 8), radius_mm=4, count=400)
found = fibers.track(field, seeds, fibers.Principal(), fibers.EuDX(fa_stop=0.25))
bundle = found.select(found.lengths_mm() > 60)

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained", width_ratios=(1, 1.6))
for start, end in zip(bundle.offsets[:-1], bundle.offsets[1:], strict=True):
    left.plot(*bundle.points[start:end, :2].T, lw=0.4, color="tab:red", alpha=0.4)
left.set(xlabel="x (mm, to the right)", ylabel="y (mm, to the front)", aspect="equal", title=f"{len(bundle)} fibers")

noisy = scan.data + np.random.default_rng(1).normal(0, 6, scan.data.shape).astype(np.float32) * (scan.data > 0)
other = diffusion.fit_tensors(diffusion.DiffusionScan(
    data=np.maximum(noisy, 1), bvals=scan.bvals, directions=scan.directions, affine=scan.affine
))  # fmt: skip
for name, one in {"as it is": field, "with more noise": other}.items():
    profile = tractograms.bundles.profile(bundle, diffusion.tensors.scalar_map(one, "FA"), one.affine)
    nodes = np.arange(len(profile))
    right.plot(nodes, profile.mean, label=name)
    right.fill_between(nodes, profile.mean - profile.sd, profile.mean + profile.sd, alpha=0.2, lw=0)
right.set(xlabel=f"node, from {profile.ends[0]} to {profile.ends[1]}", ylabel="FA", xlim=(0, 99), ylim=(0, 1))
right.legend()
plt.show()
