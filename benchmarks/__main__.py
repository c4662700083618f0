"""``python -m benchmarks [--quick]``: what ``make bench`` runs."""

from __future__ import annotations

import sys

from benchmarks.bench import main

sys.exit(main())
