#!/usr/bin/env bash
# Called by start.sh, which exports LAB, ME, DBD_PORT and DB_PORT: a MariaDB and a slurmdbd of this lab's own.
set -euo pipefail
SOCKET="$LAB/run/mysql.sock"
fail() { echo "error: $*" >&2; exit 1; }
for program in mariadbd slurmdbd sacctmgr; do
  command -v "$program" > /dev/null || fail "no $program here: apt-get install mariadb-server slurmdbd slurm-wlm-mysql-plugin"
done

if [ ! -d "$LAB/mysql/mysql" ]; then
  mkdir -p "$LAB/mysql"
  chmod 700 "$LAB/mysql"
  mariadb-install-db --no-defaults --datadir="$LAB/mysql" --user="$ME" --auth-root-authentication-method=normal \
    --skip-test-db > "$LAB/log/mysql-install.log" 2>&1
fi
mariadbd --no-defaults --user="$ME" --datadir="$LAB/mysql" --socket="$SOCKET" --pid-file="$LAB/run/mariadbd.pid" \
  --bind-address=127.0.0.1 --port="$DB_PORT" --innodb-buffer-pool-size=64M --innodb-log-file-size=48M \
  --innodb-lock-wait-timeout=900 --log-error="$LAB/log/mysql.log" > /dev/null 2>&1 &
for _ in $(seq 1 150); do
  mariadb-admin --no-defaults --socket="$SOCKET" -uroot ping > /dev/null 2>&1 && break
  sleep 0.2
done
mariadb --no-defaults --socket="$SOCKET" -uroot << SQL
create database if not exists slurm_acct;
create user if not exists 'slurm'@'127.0.0.1' identified by 'lab';
create user if not exists 'slurm'@'localhost' identified by 'lab';
grant all on slurm_acct.* to 'slurm'@'127.0.0.1';
grant all on slurm_acct.* to 'slurm'@'localhost';
SQL

cat > "$LAB/slurmdbd.conf" << CONF
AuthType=auth/munge
AuthInfo=socket=$LAB/munge/socket
DbdHost=localhost
DbdPort=$DBD_PORT
SlurmUser=$ME
PidFile=$LAB/run/slurmdbd.pid
LogFile=$LAB/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$DB_PORT
StorageUser=slurm
StoragePass=lab
StorageLoc=slurm_acct
CONF
# slurmdbd refuses a file that others can read, and looks for it beside $SLURM_CONF.
chmod 600 "$LAB/slurmdbd.conf"
slurmdbd
for _ in $(seq 1 150); do
  sacctmgr --noheader list cluster > /dev/null 2>&1 && break
  sleep 0.2
done
sacctmgr --immediate --quiet add cluster lab > /dev/null || true
sacctmgr --immediate --quiet add account lab Description=lab Organization=lab > /dev/null || true
sacctmgr --immediate --quiet add user "$ME" account=lab > /dev/null || true
