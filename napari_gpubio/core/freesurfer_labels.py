"""Names of the labels in FreeSurfer's ``aseg``, ``aparc+aseg`` and ``wmparc``, for where its own table is not at hand.

Numbers and names are those of its ``FreeSurferColorLUT.txt``, which has many more. A cortical region has 1000 (left) or
2000 (right) plus its number of the Desikan-Killiany atlas, the white matter below it 3000 or 4000 plus that.
"""

_ASEG = """
2 Left-Cerebral-White-Matter, 3 Left-Cerebral-Cortex, 4 Left-Lateral-Ventricle, 5 Left-Inf-Lat-Vent,
7 Left-Cerebellum-White-Matter, 8 Left-Cerebellum-Cortex, 10 Left-Thalamus, 11 Left-Caudate, 12 Left-Putamen,
13 Left-Pallidum, 14 3rd-Ventricle, 15 4th-Ventricle, 16 Brain-Stem, 17 Left-Hippocampus, 18 Left-Amygdala, 24 CSF,
26 Left-Accumbens-area, 28 Left-VentralDC, 30 Left-vessel, 31 Left-choroid-plexus, 41 Right-Cerebral-White-Matter,
42 Right-Cerebral-Cortex, 43 Right-Lateral-Ventricle, 44 Right-Inf-Lat-Vent, 46 Right-Cerebellum-White-Matter,
47 Right-Cerebellum-Cortex, 49 Right-Thalamus, 50 Right-Caudate, 51 Right-Putamen, 52 Right-Pallidum,
53 Right-Hippocampus, 54 Right-Amygdala, 58 Right-Accumbens-area, 60 Right-VentralDC, 62 Right-vessel,
63 Right-choroid-plexus, 72 5th-Ventricle, 77 WM-hypointensities, 78 Left-WM-hypointensities,
79 Right-WM-hypointensities, 80 non-WM-hypointensities, 81 Left-non-WM-hypointensities,
82 Right-non-WM-hypointensities, 85 Optic-Chiasm, 192 Corpus_Callosum, 251 CC_Posterior, 252 CC_Mid_Posterior,
253 CC_Central, 254 CC_Mid_Anterior, 255 CC_Anterior, 5001 Left-UnsegmentedWhiteMatter,
5002 Right-UnsegmentedWhiteMatter
"""
_CORTEX = """
unknown bankssts caudalanteriorcingulate caudalmiddlefrontal corpuscallosum cuneus entorhinal fusiform inferiorparietal
inferiortemporal isthmuscingulate lateraloccipital lateralorbitofrontal lingual medialorbitofrontal middletemporal
parahippocampal paracentral parsopercularis parsorbitalis parstriangularis pericalcarine postcentral posteriorcingulate
precentral precuneus rostralanteriorcingulate rostralmiddlefrontal superiorfrontal superiorparietal superiortemporal
supramarginal frontalpole temporalpole transversetemporal insula
"""
_SIDES = {1000: "ctx-lh", 2000: "ctx-rh", 3000: "wm-lh", 4000: "wm-rh"}
FREESURFER_NAMES = {
    **{int(number): name for number, name in (entry.split() for entry in _ASEG.split(","))},
    **{first + n: f"{side}-{name}" for first, side in _SIDES.items() for n, name in enumerate(_CORTEX.split())},
}
