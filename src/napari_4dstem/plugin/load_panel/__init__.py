"""The load dock: what a file holds, and how its frames form a scan."""
