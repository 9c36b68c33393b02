#!/usr/bin/env bash
# A Slurm of one node on this machine, started from Debian's packages without systemd, for tests and measurements:
#   SLURM_LAB=/tmp/lab tests/cluster/lab/start.sh && . /tmp/lab/env.sh
#
# SLURM_LAB             folder of all its state (required; a short path, for a socket lies in it)
# SLURM_LAB_ACCOUNTING  1: with MariaDB and slurmdbd (Debian: mariadb-server slurmdbd slurm-wlm-mysql-plugin)
# SLURM_LAB_CPUS        CPUs that the node claims to have (default: the machine's)
# SLURM_LAB_MEM_MB      memory that it claims to have (default: 90 % of the machine's)
#
# Needs the packages slurmctld, slurmd, slurm-client and munge; runs as root and as an ordinary user. Ports are free ones,
# so several labs run side by side. stop.sh ends exactly the daemons that this one started.
set -euo pipefail
LAB=$(realpath -m "${SLURM_LAB:?is the folder for the state of the lab, for example /tmp/lab}")
HERE=$(dirname "$(realpath "$0")")
ACCOUNTING=${SLURM_LAB_ACCOUNTING:-0}
CPUS=${SLURM_LAB_CPUS:-$(nproc)}
MEM_MB=${SLURM_LAB_MEM_MB:-$(awk '/MemTotal/ {printf "%d", $2 / 1024 * 0.9}' /proc/meminfo)}
ME=$(id -un)
HOST=$(hostname -s)
export PATH="$PATH:/usr/sbin:/sbin" SLURM_CONF="$LAB/slurm.conf"

fail() { echo "error: $*" >&2; exit 1; }
for program in slurmctld slurmd sinfo munged; do
  command -v "$program" > /dev/null || fail "no $program here: apt-get install slurmctld slurmd slurm-client munge"
done
[ ! -s "$LAB/run/slurmctld.pid" ] || fail "$LAB is in use: SLURM_LAB=$LAB $HERE/stop.sh first"

mkdir -p "$LAB"/{munge,state,spool,log,run,bin}
# munged refuses folders that others can write; jobs of other users must be able to read the rest.
chmod 755 "$LAB" "$LAB"/*
chmod 700 "$LAB/state"
# Four ports that nobody listens on now.
read -r CTLD_PORT SLURMD_PORT DBD_PORT DB_PORT < <(python3 -c '
import socket
held = [socket.socket() for _ in range(4)]
for one in held:
    one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in held))')
export LAB DBD_PORT DB_PORT ME
# The node's name is the lab's own: Slurm names its cgroups by it.
NODE=lab$CTLD_PORT

(umask 077; head -c 1024 /dev/urandom > "$LAB/munge/munge.key")
munged --force --key-file="$LAB/munge/munge.key" --socket="$LAB/munge/socket" --pid-file="$LAB/run/munged.pid" \
  --log-file="$LAB/log/munged.log" --seed-file="$LAB/munge/munge.seed" --num-threads=4 2> "$LAB/log/munged.start.log" \
  || fail "munged did not start: $(tail -1 "$LAB/log/munged.start.log")"

STORAGE="AccountingStorageType=accounting_storage/none"
if [ "$ACCOUNTING" = 1 ]; then
  # The connection to slurmdbd takes its munge socket from AccountingStoragePass and no other setting.
  STORAGE="AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$DBD_PORT
AccountingStoragePass=$LAB/munge/socket
AccountingStorageTRES=gres/gpu"
fi

# A job over its memory is killed by the kernel (state OUT_OF_MEMORY) where cgroups of version 1 can be written, as root.
# Elsewhere slurmd looks at its processes once a second; in some mixtures of libraries it does not, and kills nothing.
CGROUP=/sys/fs/cgroup/memory/slurm_$NODE
LIMITS="TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill"
if mkdir "$CGROUP" 2> /dev/null; then
  rmdir "$CGROUP"
  LIMITS="TaskPlugin=task/cgroup"
  cat > "$LAB/cgroup.conf" << CONF
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
ConstrainRAMSpace=yes
MinRAMSpace=20
CONF
fi

cat > "$LAB/slurm.conf" << CONF
ClusterName=lab
SlurmctldHost=$HOST(127.0.0.1)
SlurmUser=$ME
SlurmdUser=$ME
AuthType=auth/munge
CredType=cred/munge
# A job that is queued again must wait until its old credential has expired: two minutes, unless said otherwise.
AuthInfo=cred_expire=10,socket=$LAB/munge/socket
SlurmctldPort=$CTLD_PORT
SlurmdPort=$SLURMD_PORT
StateSaveLocation=$LAB/state
SlurmdSpoolDir=$LAB/spool
SlurmctldPidFile=$LAB/run/slurmctld.pid
SlurmdPidFile=$LAB/run/slurmd.pid
SlurmctldLogFile=$LAB/log/slurmctld.log
SlurmdLogFile=$LAB/log/slurmd.log
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
$LIMITS
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=5
DefMemPerCPU=256
GresTypes=gpu
# What can never run is refused at once.
EnforcePartLimits=ALL
# Slurm's own default: a finished job is known to squeue for so many seconds.
MinJobAge=300
KillWait=2
ReturnToService=2
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
# More CPUs and memory than the machine has may be claimed.
SlurmdParameters=config_overrides
$STORAGE
NodeName=$NODE NodeHostname=$HOST NodeAddr=127.0.0.1 CPUs=$CPUS RealMemory=$MEM_MB Gres=gpu:fake:2 State=UNKNOWN
PartitionName=cpu Nodes=$NODE Default=YES MaxTime=1-00:00:00 PriorityTier=1 State=UP
PartitionName=gpu Nodes=$NODE MaxTime=2-00:00:00 PriorityTier=1 State=UP
# Jobs here push jobs of the other two off the node, which are then queued again.
PartitionName=urgent Nodes=$NODE MaxTime=1-00:00:00 PriorityTier=10 PreemptMode=OFF State=UP
CONF
# Two GPUs that are none: any two device files will do, for nothing here locks jobs out of devices.
cat > "$LAB/gres.conf" << CONF
AutoDetect=off
NodeName=$NODE Name=gpu Type=fake File=/dev/null
NodeName=$NODE Name=gpu Type=fake File=/dev/zero
CONF

# The plugin's job step strips SLURM_CONF before it calls srun. On a cluster srun finds /etc/slurm; here a wrapper puts
# the variable back. PATH reaches the job with the rest of the environment.
printf '#!/bin/sh\nSLURM_CONF=%s exec %s "$@"\n' "$SLURM_CONF" "$(command -v srun)" > "$LAB/bin/srun"
chmod 755 "$LAB/bin/srun"
printf 'export SLURM_CONF=%s\nexport PATH=%s:"$PATH"\n' "$SLURM_CONF" "$LAB/bin" > "$LAB/env.sh"

[ "$ACCOUNTING" != 1 ] || "$HERE/accounting.sh"
# Both put themselves into the background and write their process id to $LAB/run.
slurmctld -f "$SLURM_CONF"
slurmd -f "$SLURM_CONF" -N "$NODE"
for _ in $(seq 1 150); do
  state=$(sinfo --noheader --partition=cpu --format=%T 2> /dev/null || true)
  case "$state" in idle | mixed | allocated) echo "ready: . $LAB/env.sh" && exit 0 ;; esac
  sleep 0.2
done
tail -n 5 "$LAB"/log/slurm*.log >&2
fail "the node is '$state' after 30 s; its logs are in $LAB/log"
