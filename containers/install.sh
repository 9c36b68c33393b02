#!/bin/sh
# Runs inside an image while it is built (%post), from the folder that build.sh binds at /opt/build: what the image holds,
# in the versions of its locks. Never touches /tmp or /var/tmp: during a build those can be the host's.
set -eu
. /opt/build/settings
export DEBIAN_FRONTEND=noninteractive SOURCE_DATE_EPOCH FORCE_SOURCE_DATE=1 PYTHONHASHSEED=0 LC_ALL=C.UTF-8 HOME=/opt/build/home

if [ -s /opt/build/debs ]; then
  apt="-o Dir::Etc::SourceList=/opt/build/sources.list -o Dir::Etc::SourceParts=- -o APT::Sandbox::User=root -o Acquire::Check-Valid-Until=false"
  # Documentation is of no use in an image; licences are.
  printf '%s\n' 'path-exclude=/usr/share/doc/*' 'path-include=/usr/share/doc/*/copyright' 'path-exclude=/usr/share/man/*' \
    > /etc/dpkg/dpkg.cfg.d/without_documentation
  apt-get $apt -qq update
  xargs -a /opt/build/debs apt-get $apt -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends --allow-downgrades > /dev/null
  rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/cache/debconf/*-old
  rm -f /var/log/dpkg.log /var/log/alternatives.log /var/log/bootstrap.log /var/cache/ldconfig/aux-cache /etc/machine-id
  rm -rf /var/log/apt/* /var/lib/dpkg/*-old
  # Which packages were asked for and which followed: the one thing that differs between a build that makes
  # envs/<image>.debs and one that follows it.
  : > /var/lib/apt/extended_states
  # The day on which each account was made.
  sed -i -E "s/^([^:]*:[^:]*:)[0-9]+/\1$((SOURCE_DATE_EPOCH / 86400))/" /etc/shadow
  rm -f /etc/shadow-
fi
dpkg-query -W -f '${Package}=${Version}\n' | LC_ALL=C sort > /opt/build/debs.installed

# Locks of wheels first, all in one: what is installed is what they say, no more and no less.
wheels=$(find /opt/build/locks -name '*.lock' ! -name '*_source.lock' | sort)
if [ -n "$wheels" ]; then
  [ -x /opt/venv/bin/python ] || /opt/build/uv venv --quiet --no-config --python /usr/bin/python3 /opt/venv
  /opt/build/uv pip sync --quiet --no-config --python /opt/venv/bin/python --require-hashes --link-mode copy \
    --find-links /opt/build/wheels --build-constraints /opt/build/build.lock $wheels
fi
# uv notes when it saw a wheel that came as a file.
find /opt/venv -name uv_cache.json -delete
find /opt/venv -name RECORD -exec sed -i '/uv_cache\.json/d' {} +
# Then what is compiled against them, such as kernels for the torch that is now there.
for lock in /opt/build/locks/*_source.lock; do
  [ -f "$lock" ] || continue
  /opt/build/uv pip install --no-config --python /opt/venv/bin/python --require-hashes --no-deps --no-build-isolation \
    --no-binary :all: --link-mode copy -r "$lock"
done

if [ -s /opt/build/sources ]; then
  while read -r name url commit; do
    mkdir -p "/opt/src/$name"
    git -C "/opt/src/$name" init --quiet
    # A commit's name is the digest of its content: git refuses anything else.
    git -C "/opt/src/$name" fetch --quiet --depth 1 "$url" "$commit"
    git -C "/opt/src/$name" checkout --quiet FETCH_HEAD
    rm -rf "/opt/src/$name/.git"
  done < /opt/build/sources
fi

# Compiled now, because a read-only image could not keep it; checked by nothing, so that file times do not matter.
if [ -d /opt/venv ]; then
  find /opt/venv -name __pycache__ -type d -prune -exec rm -rf {} +
  /opt/venv/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/venv/lib > /dev/null || true
fi
