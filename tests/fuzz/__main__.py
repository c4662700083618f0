"""``python -m tests.fuzz``: see the package."""

import sys

from tests.fuzz.run import main

sys.exit(main())
