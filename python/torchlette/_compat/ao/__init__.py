"""Names of ``torch.ao``: there are no quantized dtypes, and models that could be quantized run as they are."""
