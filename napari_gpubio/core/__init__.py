"""What every engine stands on: devices, kernels, random numbers, steps, space, files. Knows no engine and no napari."""
