"""``torch._subclasses``: names of PyTorch's tensors without values. Here the device ``meta`` has such tensors."""
