"""Files of the speckle engine."""
