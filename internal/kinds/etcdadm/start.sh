#!/bin/sh
# Runs in the place of etcd while the machine restores a seed: it puts the restored data where etcd looks for them, and becomes etcd. Without
# restored data etcd does not start: it would begin an empty cluster under the authority of the one before.
set -eu
DATA=/var/lib/etcd/member
RESTORED=/var/lib/quorate-seed/data/member
. /etc/quorate/etcd/settings.sh
if [ ! -e $DATA ]; then
	mkdir -p ${DATA%/*}
	chmod 700 ${DATA%/*}
	rm -rf $DATA.part
	cp -a $RESTORED $DATA.part
	sync
	mv $DATA.part $DATA
fi
exec "$ETCD"
