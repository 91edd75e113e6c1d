"""Apple's own GPU interface is not here; the device "wgpu" drives the same hardware."""


def is_available() -> bool:
    """Return ``False``."""
    return False


def is_built() -> bool:
    """Return ``False``."""
    return False
