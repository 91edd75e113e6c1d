"""The former name of the download functions of :mod:`torchlette.hub`."""

from torchlette._compat.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]
