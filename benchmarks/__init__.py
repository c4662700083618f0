"""Measurements, printed as ratios to plain references in the same run."""
