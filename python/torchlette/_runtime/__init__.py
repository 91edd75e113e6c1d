"""What the package needs: settings, errors, dtypes, methods of Tensor. Users find the names in torchlette."""
