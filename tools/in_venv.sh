#!/bin/sh
# in_venv.sh script args: runs a Python script with the packages that setup.sh installed.
venv=${HAKDEV_VENV:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/hakmem/venv}
exec "$venv/bin/python3" "$@"
