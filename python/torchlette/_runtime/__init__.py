"""What the package itself needs: settings, errors, dtypes, the methods of Tensor. Users find its names in torchlette."""
