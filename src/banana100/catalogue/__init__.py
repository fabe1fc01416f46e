"""What params.yaml may name: metrics with their weight files, and the bundled photographs. Data only."""
