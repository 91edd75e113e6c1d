"""Settings, errors, dtypes and the Python methods of Tensor; the public names are in torchlette."""
