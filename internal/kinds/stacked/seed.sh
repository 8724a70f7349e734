#!/bin/sh
# Restores a snapshot of etcd for the member that kubeadm is about to start on this machine. kubeadm's configuration is out of reach until the
# snapshot is restored: cloud-init goes on after a command that fails, and "kubeadm init" without data would serve an empty cluster under the
# authorities of the old one.
set -eu
umask 077
conf=/run/kubeadm/kubeadm.yaml hidden=/run/kubeadm/kubeadm.yaml.not-restored work=/var/lib/quorate-seed
here=/etc/quorate/seed
mv "$conf" "$hidden"
say() { echo "seed: $*"; }
# What kubeadm would start: the member's name, peer URL, folder and image, with all that the user's configuration and patches say.
kubeadm init phase etcd local --dry-run --config "$hidden" >/run/kubeadm/etcd.dry 2>&1 || { cat /run/kubeadm/etcd.dry; exit 1; }
arg() { sed -n "s/^[[:space:]]*- --$1=//p" /run/kubeadm/etcd.dry | head -n 1; }
name=$(arg name) peer=$(arg initial-advertise-peer-urls) dir=$(arg data-dir)
image=$(sed -n 's/^[[:space:]]*image: *//p' /run/kubeadm/etcd.dry | head -n 1)
[ -n "$name" ] && [ -n "$peer" ] && [ -n "$dir" ] && [ -n "$image" ] || { say "kubeadm names no etcd member"; exit 1; }
[ ! -e "$dir/member" ] || { say "$dir/member exists already"; exit 1; }
mkdir -p "$work" "$dir"
n=0
until curl --fail --silent --show-error --max-time 3600 --cacert "$here/ca.crt" --connect-to "@HOST@:443:@ADDRESS@" \
  --header "@$here/authorization" --output "$work/snapshot.db" "https://@HOST@/@PATH@"; do
  n=$((n + 1))
  [ $n -lt 600 ] || { say "no snapshot was handed out within 600 attempts"; exit 1; }
  sleep 1
done
echo "@SHA256@  $work/snapshot.db" | sha256sum -c -
ctr -n k8s.io images ls -q | grep -qxF "$image" || crictl pull "$image" || ctr -n k8s.io images pull "$image"
ctr -n k8s.io run --rm --mount "type=bind,src=$work,dst=$work,options=rbind:ro" --mount "type=bind,src=$dir,dst=$dir,options=rbind:rw" "$image" "quorate-seed-$$" \
  etcdutl snapshot restore "$work/snapshot.db" --name "$name" --initial-cluster "$name=$peer" --initial-advertise-peer-urls "$peer" \
  --initial-cluster-token "@TOKEN@" --data-dir "$dir/seed" --bump-revision 1000000000 --mark-compacted
mv "$dir/seed/member" "$dir/member"
rmdir "$dir/seed"
chmod 700 "$dir"
rm -rf "$work" "$here/authorization"
sync
mv "$hidden" "$conf"
say "restored member $name"
