"""
A spectrum that tells oxygenation
=================================

What a detector 8 mm from a source sees between 650 and 950 nm, for tissue with 40 to 90 % oxygenated hemoglobin.
All curves are from the photons of a single run, weighted anew.
"""

import matplotlib.pyplot as plt
import numpy as np

from napari_gpubio import light, optics

wavelengths_nm = np.arange(650, 951, 10)
saturations = (0.4, 0.6, 0.75, 0.9)
tissues = {
    saturation: optics.tissue.Composition(
        name="tissue",
        chromophores=optics.tissue.Chromophores(blood_fraction=0.04, oxygen_saturation=saturation, water_fraction=0.7),
        scattering=optics.tissue.PowerLaw(a_per_mm=1.0, b=0.0),
    )
    for saturation in saturations
}
media = {s: {float(nm): (tissue.medium(nm),) for nm in wavelengths_nm} for s, tissue in tissues.items()}
every = {1000 * s + nm: one for s, table in media.items() for nm, one in table.items()}
cube = optics.Domain(labels=np.ones((48, 40, 24), np.uint8), affine=np.eye(4), media=light.spectrum_media(every))
source = optics.Pencil(position_mm=(15.5, 19.5, -1), direction=(0, 0, 1))
detector = optics.Detector(position_mm=(23.5, 19.5, -0.5), radius_mm=3)
run = light.simulate(cube, source, light.LightSettings(photons=25_000), detectors=[detector])

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
colors = plt.cm.coolwarm_r(np.linspace(0, 1, len(saturations)))
for saturation, color in zip(saturations, colors, strict=True):
    weight, error = (part[0] for part in light.spectrum(run, media[saturation]).weight)
    ax.plot(wavelengths_nm, 100 * weight, color=color, label=f"{saturation:.0%}")
    ax.fill_between(wavelengths_nm, 100 * (weight - error), 100 * (weight + error), color=color, alpha=0.2)
ax.set(xlabel="wavelength (nm)", ylabel="detected (% of the light)", xlim=(650, 950))
ax.legend(title="oxygenated")
plt.show()
