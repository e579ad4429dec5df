"""
A pulse of light spreads
========================

A picosecond pulse enters tissue with a dark ball: fluence in steps of 5 ps, each on its own scale of three decades.
"""

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image, ImageDraw
from scipy.ndimage import gaussian_filter
from window_pictures import film

from napari_gpubio import light, optics

tissue = optics.Medium(label=1, mua_per_mm=0.005, mus_per_mm=8.0, g=0.9, n=1.37)
ball = optics.Medium(label=2, mua_per_mm=1.0, mus_per_mm=8.0, g=0.9, n=1.37)
labels = np.ones((64, 33, 32), np.uint8)
x, y, z = np.indices(labels.shape)
labels[(x - 42) ** 2 + (y - 16) ** 2 + (z - 12) ** 2 < 30] = 2
block = optics.Domain(labels=labels, affine=np.diag([0.5, 0.5, 0.5, 1]), media=(tissue, ball))
source = optics.Pencil(position_mm=(15.75, 8.0, -0.5), direction=(0, 0, 1))
settings = light.LightSettings(photons=14_000, time_gates_ns=tuple(np.arange(0, 0.201, 0.005).round(3)))
gates = light.simulate(block, source, settings).gates[:, 8:25].sum(axis=1)

frames = []
for gate in range(gates.shape[2]):
    plane = gaussian_filter(gates[..., gate].T, 0.4 + gate / 40)
    shown = np.clip(np.log10(np.maximum(plane, 1e-20) / plane.max()) / 3 + 1, 0, 1)
    frame = Image.fromarray((255 * plt.cm.inferno(shown)[..., :3]).astype(np.uint8)).resize((640, 320), Image.BICUBIC)
    draw = ImageDraw.Draw(frame)
    draw.text((12, 296), f"{5 * gate} to {5 * gate + 5} ps", fill="white", font_size=16)
    draw.ellipse((366, 66, 474, 174), outline=(90, 190, 255))
    frames.append(np.asarray(frame))
film("light_gates", frames, rate=10)

fig, axes = plt.subplots(1, 4, figsize=(9, 1.9), layout="constrained")
for ax, gate in zip(axes, (3, 8, 16, 36), strict=True):
    ax.imshow(frames[gate])
    ax.axis("off")
plt.show()
