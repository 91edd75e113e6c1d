"""PyTorch's modules and names beside tensors and layers: hub, jit, library, onnx, old names. All have public paths."""
