"""Products of an acquisition: functions over blocks of patterns, coded or not."""
