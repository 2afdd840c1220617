#!/bin/bash
# Ceph's S3 gateway with one monitor and one OSD that keeps objects in memory: Debian's packages radosgw, ceph-mon, ceph-osd and ceph-common.
# Prints the port once it answers, and ends with its standard input.
# Arguments: the folder, the ports of monitor and gateway, access key, secret key.
set -euo pipefail
home=$1 monitor=$2 gateway=$3 access=$4 secret=$5
mkdir -p "$home"/{mon,osd,run,log}
export CEPH_CONF=$home/ceph.conf
cat > "$CEPH_CONF" <<CONF
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon host = v1:127.0.0.1:$monitor
mon initial members = a
auth cluster required = none
auth service required = none
auth client required = none
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind msgr2 = false
run dir = $home/run
admin socket =
log file = $home/log/\$name.log
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 1000
[mon]
mon data = $home/mon
mon data avail crit = 1
[osd]
osd data = $home/osd
osd objectstore = memstore
memstore device bytes = 8589934592
osd class load list = *
osd class default list = *
[client.rgw]
rgw data = $home/run
rgw frontends = beast endpoint=127.0.0.1:$gateway
rgw thread pool size = 32
CONF
trap 'kill $(jobs -p) 2>/dev/null' EXIT
monmaptool --create --clobber --addv a "[v1:127.0.0.1:$monitor]" "$home/monmap" >&2
ceph-mon --mkfs -i a --monmap "$home/monmap" >&2
ceph-mon -i a -f > "$home/log/mon.out" 2>&1 &
osd=$(cat /proc/sys/kernel/random/uuid)
timeout 400 ceph osd new "$osd" >&2
ceph-osd -i 0 --mkfs --osd-uuid "$osd" >&2
ceph-osd -i 0 -f > "$home/log/osd.out" 2>&1 &
timeout 400 radosgw-admin user create --uid=test --display-name=test --access-key="$access" --secret-key="$secret" >&2
radosgw -n client.rgw -f > "$home/log/rgw.out" 2>&1 &
for _ in $(seq 2000); do
  curl -so /dev/null "http://127.0.0.1:$gateway/" && break
  sleep 0.2
done
echo "$gateway"
cat > /dev/null
