"""Geodesics in the space of positions and directions, with a cost from FODs."""
