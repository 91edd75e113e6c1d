"""MKL is not here: kernels for the CPU are the library's own."""


def is_available() -> bool:
    """Return ``False``."""
    return False
