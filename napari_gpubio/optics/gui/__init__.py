"""Tables of optical properties, and tissues from the literature."""
