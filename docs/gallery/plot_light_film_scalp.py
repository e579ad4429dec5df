"""
A source moves along the scalp
==============================

The light of a pencil beam that goes around the head, in an axial slab of the sample head.
Clear CSF guides it around the brain.
"""

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter
from window_pictures import film

from napari_gpubio import light, optics

head = optics.phantom.load_head_phantom()
k = round((np.linalg.inv(head.affine) @ [0, 0, 20, 1])[2])
affine = head.affine.copy()
affine[2, 3] += 2.0 * (k - 4)
slab = optics.Domain(labels=np.ascontiguousarray(head.labels[:, :, k - 4 : k + 5]), affine=affine, media=head.media)
settings = light.LightSettings(photons=700, faces=("default",) * 4 + ("mirror",) * 2)
gray = np.array([0, 0.4, 0.7, 0.1, 0.3, 0.5])[slab.labels[:, :, 4]]
center = np.array([0.0, -15.0])

frames = []
for angle in np.deg2rad(np.linspace(0, 360, 48, endpoint=False)):
    outward = np.array([-np.cos(angle), np.sin(angle)])
    start = center + 115 * outward
    source = optics.Pencil(position_mm=(*start, 20.0), direction=(*-outward, 0.0), entry="smooth")
    fluence = light.simulate(slab, source, settings).fluence.mean(axis=2)
    level = np.clip((np.log10(gaussian_filter(fluence, 0.7) + 1e-12) + 6.5) / 5, 0, 1) * (gray > 0)
    colors = plt.cm.inferno(level)[..., :3]
    alpha = np.clip(3 * level, 0, 1)[..., None]
    rgb = (255 * (alpha * colors + (1 - alpha) * 0.8 * gray[..., None])).astype(np.uint8)
    frame = Image.fromarray(rgb.transpose(1, 0, 2)[::-1]).resize((528, 640), Image.BICUBIC)
    frames.append(np.pad(np.asarray(frame), ((0, 0), (56, 56), (0, 0))))
film("light_around_the_head", frames)

fig, axes = plt.subplots(1, 4, figsize=(9, 2.7), layout="constrained")
for ax, frame in zip(axes, frames[::12], strict=True):
    ax.imshow(frame)
    ax.axis("off")
plt.show()
