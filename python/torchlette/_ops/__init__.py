"""Functions of tensors that are written in Python over the engine's operators. Users find them in torchlette."""
