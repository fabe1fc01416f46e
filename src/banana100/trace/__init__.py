"""Trace: the whole way back from an image, a score or a verdict to the parameters that decided it."""
