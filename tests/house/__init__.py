"""Rules of the house that no ordinary test would notice being broken."""
