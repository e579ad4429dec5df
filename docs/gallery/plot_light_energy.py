"""
Where the light of a photon goes
================================

The energy balance of a pencil beam on the sample head, at six wavelengths (Cassano et al. 2019).
The parts sum to 1; with this skin, the brain gets a fraction of a percent.
"""

import matplotlib.pyplot as plt
import numpy as np

from napari_gpubio import light, optics

wavelengths_nm = (670, 760, 810, 850, 904, 980)
parts = {
    "reflected at the skin": [],
    "left the head": [],
    "scalp": [],
    "skull": [],
    "CSF": [],
    "gray matter": [],
    "white matter": [],
}
for nm in wavelengths_nm:
    plain = optics.phantom.load_head_phantom()
    head = plain.with_optics(optics.tissue.head_media(nm, "Cassano 2019"))
    source = optics.Pencil(position_mm=(-75.0, -18.0, 8.0), direction=(1.0, 0.0, 0.0), entry="smooth")
    result = light.simulate(head, source, light.LightSettings(photons=4000))
    parts["reflected at the skin"].append(result.energy.specular.value)
    parts["left the head"].append(result.energy.escaped.value)
    for label, absorbed in result.absorbed.items():
        parts[head.medium(label).name].append(absorbed.value)

colors = ["0.75", "#f2c14e", "#b5735a", "#d9cfb0", "#3b8ab8", "#77777f", "#c9c9cf"]
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", width_ratios=(2, 1))
bottom, at = np.zeros(len(wavelengths_nm)), np.arange(len(wavelengths_nm))
for (name, values), color in zip(parts.items(), colors, strict=True):
    left.bar(at, values, bottom=bottom, color=color, label=name)
    bottom += values
left.set(
    xticks=at, xticklabels=wavelengths_nm, xlabel="wavelength (nm)", ylabel="share of a launched photon", ylim=(0, 1)
)
left.legend(loc="center left", bbox_to_anchor=(1, 0.5))
brain = 100 * np.add(parts["gray matter"], parts["white matter"])
right.bar(at, brain, color="#77777f")
right.set(xticks=at, xticklabels=wavelengths_nm, xlabel="wavelength (nm)", ylabel="absorbed by the brain (%)")
right.tick_params(axis="x", rotation=45)
plt.show()
