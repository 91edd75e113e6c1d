"""Readers of other libraries' model files. Each makes a :class:`torchlette.nn.Module` that interprets the file's graph."""
