"""The explorer dock: patterns, detectors and the real-space images they make."""
