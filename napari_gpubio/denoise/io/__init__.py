"""Files of the denoise engine."""
