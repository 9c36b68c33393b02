#!/bin/sh
# What `make test-cluster` lacks on this machine, in one line; nothing when it can run.
for program in apptainer mksquashfs slurmctld slurmd sbatch munged; do
  command -v "$program" > /dev/null || [ -x "/usr/sbin/$program" ] ||
    { echo "$program is not installed (.ci/run installs it as root on Debian)"; exit; }
done
unshare --user --map-root-user --mount true 2> /dev/null ||
  { echo "the kernel forbids user namespaces, so no image can be built or run"; exit; }
# Packages give files to groups, and a name space needs a range of ids for them.
grep -q "^$(id -un):" /etc/subuid 2> /dev/null && grep -q "^$(id -un):" /etc/subgid 2> /dev/null ||
  echo "$(id -un) has no line in /etc/subuid and /etc/subgid (like $(id -un):100000:65536), which building images needs"
