"""The conformance kit: whether a backend computes what the operations mean."""
