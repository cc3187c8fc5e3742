"""Files: models and training state."""
