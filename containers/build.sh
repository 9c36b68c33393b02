#!/usr/bin/env bash
# containers/build.sh NAME...   builds images, records their digests in images.yaml and names the .sif files by them.
# containers/build.sh --help    says more. Needs apptainer and squashfs-tools, and mmdebstrap where no container registry
#                               can be reached; no root, but user namespaces.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/launcher/bin/python
[ -x "$python" ] || { echo "error: $python is missing; run \`make setup\` first" >&2; exit 1; }
exec "$python" -m containers.build "$@"
