"""What a panel shows of layers."""
