"""The first name of :mod:`torchlette.hub`'s downloads."""

from torchlette._compat.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]
