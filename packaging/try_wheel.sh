#!/bin/sh
# Install a wheel into an empty environment and use it there: console script, quickstart, JupyterLab.
# usage: packaging/try_wheel.sh PYTHON WHEEL
set -eu

python=$1
wheel=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet "$wheel[lab]"
"$work/venv/bin/python" -m pip check
# The quickstart goes along, the sources stay behind.
(cd "$root" && git ls-files -z notebooks | xargs -0 tar -cf -) | tar -xf - -C "$work"

cd "$work/notebooks"
PATH=$work/venv/bin:/usr/bin:/bin
XDG_CONFIG_HOME=$work/config
XDG_DATA_HOME=$work/data
export PATH XDG_CONFIG_HOME XDG_DATA_HOME
unset PYTHONPATH VIRTUAL_ENV JUPYTER_PATH || true

python -c 'import ipyagent, sys; assert ipyagent.__file__.startswith(sys.prefix), ipyagent.__file__'
ipyagent --version
ipyagent ask --model offline/explorer "What files are here?"
python demo.py
jupyter labextension list 2>&1 | tee "$work/extensions"
grep -E 'ipyagent v[0-9][^ ]* .*enabled.* .*OK' "$work/extensions" >/dev/null || {
	echo "JupyterLab does not list ipyagent as enabled and OK." >&2
	exit 1
}
echo "The wheel works in an empty environment."
