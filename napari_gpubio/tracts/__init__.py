"""Diffusion tensors and fiber tracking by geodesic ray-tracing (van Aart et al. 2011)."""
