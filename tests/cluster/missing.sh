#!/bin/sh
# What `make test-cluster` lacks on this machine, in one line; nothing when it can run.
for program in apptainer mksquashfs slurmctld slurmd sbatch munged; do
  command -v "$program" > /dev/null || [ -x "/usr/sbin/$program" ] || { echo "$program is not installed (.ci/run installs it as root on Debian)"; exit; }
done
unshare --user --map-root-user true 2> /dev/null || { echo "the kernel forbids user namespaces, so no image can be built or run"; exit; }
if [ "$(id -u)" = 0 ] && ! grep -q "^root:" /etc/subuid 2> /dev/null; then
  echo "root has no line in /etc/subuid and /etc/subgid (root:100000:65536), which apptainer build --fakeroot needs"
fi
