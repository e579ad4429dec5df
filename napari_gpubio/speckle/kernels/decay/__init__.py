"""K² of a Lorentzian spectrum against exposure over correlation time, and its inverse."""
