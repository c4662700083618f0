#!/usr/bin/env bash
# Install the Debian/Ubuntu packages that napari with PyQt6 needs, with or without a screen.
# Does nothing where they are all there; without root it only says what to install.
set -euo pipefail

PACKAGES="
    xvfb xauth
    libegl1 libgl1 libgl1-mesa-dri libglx-mesa0
    libdbus-1-3 libfontconfig1 libfreetype6 libglib2.0-0
    libx11-6 libx11-xcb1 libxkbcommon0 libxkbcommon-x11-0
    libxcb1 libxcb-cursor0 libxcb-glx0 libxcb-icccm4 libxcb-image0 libxcb-keysyms1 libxcb-randr0
    libxcb-render0 libxcb-render-util0 libxcb-shape0 libxcb-shm0 libxcb-sync1 libxcb-util1
    libxcb-xfixes0 libxcb-xkb1
    fonts-dejavu-core
"

command -v dpkg-query >/dev/null || exit 0  # not a Debian: the user knows the names of the packages

# Python's own venv module lies in a package of its own when Python comes from Debian.
python=${PYTHON:-python3}
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    PACKAGES="$PACKAGES python3-venv"
fi

missing=""
for package in $PACKAGES; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
    echo "These system packages may be needed:$missing" >&2
    echo "Install them with: sudo apt-get install$missing" >&2
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing
