#!/usr/bin/env bash
# Ends exactly the daemons (and the jobs) that start.sh recorded under $SLURM_LAB; the folder stays, for its logs.
set -u
LAB=$(realpath -m "${SLURM_LAB:?is the folder that start.sh was given}")
export SLURM_CONF="$LAB/slurm.conf" PATH="$PATH:/usr/sbin:/sbin"

# end NAME: TERM, and KILL after 10 s, if the recorded process still has that name and so was not replaced by another.
end() {
  local file="$LAB/run/$1.pid" process
  [ -s "$file" ] || return 0
  process=$(cat "$file")
  if [ "$(cat "/proc/$process/comm" 2> /dev/null)" = "$1" ]; then
    kill -TERM "$process"
    for _ in $(seq 1 100); do
      [ -d "/proc/$process" ] || break
      sleep 0.1
    done
    [ ! -d "/proc/$process" ] || kill -KILL "$process"
  fi
  rm -f "$file"
}

if [ -s "$LAB/run/slurmctld.pid" ]; then
  timeout 10 scancel --user "$(id -un)" 2> /dev/null
  # slurmd ends a job only while it lives itself.
  for _ in $(seq 1 50); do
    [ -n "$(timeout 5 squeue --noheader --states=running,completing 2> /dev/null)" ] || break
    sleep 0.2
  done
fi
for daemon in slurmd slurmctld slurmdbd mariadbd munged; do end "$daemon"; done

# What task/cgroup leaves behind (the name is the lab's own), innermost folder first.
node=$(sed -n 's/^NodeName=\(lab[0-9]*\) .*/\1/p' "$SLURM_CONF" 2> /dev/null)
if [ -n "$node" ] && [ -d "/sys/fs/cgroup/memory/slurm_$node" ]; then
  find "/sys/fs/cgroup/memory/slurm_$node" -depth -type d -exec rmdir {} + 2> /dev/null || true
fi
