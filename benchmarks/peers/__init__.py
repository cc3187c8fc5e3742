"""One side of a comparison each: `python -m benchmarks.peers.NAME WORKLOAD PART [options]`."""
