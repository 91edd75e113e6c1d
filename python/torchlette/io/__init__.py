"""Import and export of tensors: torchlette's files, safetensors, PyTorch's archives, DLPack.

Most programs use ``torchlette.load`` and ``torchlette.save``.
"""
