"""The life of an acquisition: source, partial, encoded, released. The only code that changes it."""
