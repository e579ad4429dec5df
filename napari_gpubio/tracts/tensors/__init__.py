"""From signals to tensors: the fit, the eigen-decomposition and the scalar maps, with a CPU and a GPU backend."""
