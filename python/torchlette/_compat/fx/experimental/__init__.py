"""``torch.fx.experimental``: what packages ask it for."""
