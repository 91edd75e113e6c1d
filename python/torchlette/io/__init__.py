"""Tensors that come from outside or go there: files of torchlette, safetensors, PyTorch's archives, DLPack.

``torchlette.load`` and ``torchlette.save`` are the usual way in.
"""
