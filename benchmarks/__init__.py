"""What is measured: `python -m benchmarks --help`."""
