#!/usr/bin/env bash
# Run a command with a display: the user's own, or a virtual one where there is none.
set -euo pipefail
if [ -n "${DISPLAY:-}" ] || [ -n "${WAYLAND_DISPLAY:-}" ] || [ "$(uname)" != Linux ]; then
    exec "$@"
fi
exec xvfb-run -a -s "-screen 0 1600x1000x24" "$@"
