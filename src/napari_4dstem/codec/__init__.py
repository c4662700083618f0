"""Bytes to counts and back: the lossless code of 4D scans; nothing about files or screens."""
