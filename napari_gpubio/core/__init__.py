"""The ground floor: devices, kernels, random numbers, steps, space, errors, files. It knows no engine and no napari."""
