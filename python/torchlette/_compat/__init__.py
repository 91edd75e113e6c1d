"""PyTorch's other modules: hub, jit, library, onnx, old names. Each has a public import path."""
