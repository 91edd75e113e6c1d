"""The module that packages import to describe their operators to PyTorch's ONNX exporter; nothing calls what they
describe.
"""
