"""Tensor functions written in Python over the engine's operators; the public names are in torchlette."""
