"""The parts of a session: scans, detectors, images and what is said about them."""
