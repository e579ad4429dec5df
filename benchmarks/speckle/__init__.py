"""What the script of the speckle engine is made of."""
