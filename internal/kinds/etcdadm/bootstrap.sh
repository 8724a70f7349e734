#!/bin/sh
# Makes this machine a member of an etcd cluster, with etcdadm. Written by cloud-init; settings.sh beside it says what is wanted:
# ROLE (init or join), NAME, VERSION, ENDPOINTS (URLs of members, separated by blanks), RELEASE_URL and CONNECT_SECONDS of a download, and the
# functions etcdadm_download, etcdadm_init and etcdadm_join ENDPOINT. With the role restore also ETCD, the path of its program, and the seed:
# SEED_ADDRESS, SEED_HOST and SEED_PATH, where it is fetched, SEED_SHA256, and SEED_CLUSTER, the token of the new cluster.
# Exit code 0: etcd runs here, and votes or is still a learner. Safe to repeat: it never removes the data of a member.
set -u
PKI=/etc/etcd/pki
DATA=/var/lib/etcd/member
UNIT=etcd.service
TOOLS=/run/quorate-etcd
# Where a seed is restored, and what has etcd.service take it from there.
SEED=/var/lib/quorate-seed
STARTS=/etc/systemd/system/etcd.service.d/20-quorate-seed.conf
# Seconds for each: the archive, a place as learner, etcd to run; and for the promotion, which is the controller's work.
WAIT=600
PROMOTION=60
. /etc/quorate/etcd/settings.sh
ARCHIVE=/var/cache/etcdadm/etcd/v$VERSION/etcd-v$VERSION-linux-amd64.tar.gz

say() { echo "etcd-bootstrap: $*"; }
die() { say "$*"; exit 1; }
now() { cut -d. -f1 /proc/uptime; }
ctl() {
	"$TOOLS/etcdctl" --cacert $PKI/ca.crt --cert $PKI/etcdctl-etcd-client.crt --key $PKI/etcdctl-etcd-client.key \
		--command-timeout=3s --dial-timeout=2s "$@"
}
# etcdadm has etcd listen there on every machine.
loopback() { ctl --endpoints https://127.0.0.1:2379 "$@"; }

# A learner answers this too.
runs() { systemctl is-active $UNIT >/dev/null 2>&1 && loopback endpoint status >/dev/null 2>&1; }

# download gets the archive for this machine's processor. etcdadm knows that for amd64 only, and installs whatever archive has its name.
download() {
	case $(uname -m) in
	aarch64 | arm64) ;;
	*)
		etcdadm_download
		return
		;;
	esac
	mkdir -p "${ARCHIVE%/*}"
	curl --fail --silent --show-error --location --connect-timeout "$CONNECT_SECONDS" --output "$ARCHIVE.part" \
		"$RELEASE_URL/v$VERSION/etcd-v$VERSION-linux-arm64.tar.gz" && mv "$ARCHIVE.part" "$ARCHIVE"
}

# The archive comes before a place as learner is taken: etcd has only one at a time.
fetch() {
	deadline=$(($(now) + WAIT))
	until [ -s "$ARCHIVE" ] || download; do
		[ "$(now)" -lt $deadline ] || die "etcd $VERSION cannot be downloaded"
		sleep 5
	done
	mkdir -p $TOOLS
	tar -xzf "$ARCHIVE" --strip-components=1 -C $TOOLS --wildcards '*/etcdctl' || die "$ARCHIVE does not hold etcdctl"
	[ "$ROLE" != restore ] || tar -xzf "$ARCHIVE" --strip-components=1 -C $TOOLS --wildcards '*/etcdutl' || die "$ARCHIVE does not hold etcdutl"
	# etcd's members are never reached through a proxy.
	unset HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy
}

# Health for load balancers, without a certificate. etcdadm has no flag for it.
metrics() {
	mkdir -p /etc/etcd
	echo "ETCD_LISTEN_METRICS_URLS=http://$address:2381" >/etc/etcd/quorate.env
}

# number is the minor version in a text such as 3.6.16.
number() { echo "$1" | sed -n 's/^ *[0-9][0-9]*\.\([0-9][0-9]*\).*/\1/p'; }

# newer: the member at $via is of a newer minor version than this etcd.
newer() {
	theirs=$(number "$(ctl --endpoints "$via" endpoint status 2>/dev/null | cut -d, -f3)")
	[ "${theirs:-0}" -gt "$(number "$VERSION")" ]
}

# ask has the member at $via answer over HTTP, as etcdctl of an older version does not know what to ask. etcdadm needs curl, too.
ask() {
	path=$1
	shift
	curl -sS --max-time 3 --cacert $PKI/ca.crt --cert $PKI/etcdctl-etcd-client.crt --key $PKI/etcdctl-etcd-client.key "$@" "$via$path" 2>&1
}

# too_new: this etcd could not read the data of the cluster, as $last says. As a learner that cannot start it would keep them from being lowered.
too_new() {
	newer || return 1
	answer=$(ask /version)
	theirs=$(echo "$answer" | sed -n 's/.*"etcdcluster":"\([0-9.]*\)".*/\1/p')
	last="etcd $VERSION joins when the cluster is lowered from ${theirs:-what is not known: $answer}"
	[ -z "$theirs" ] || [ "$(number "$theirs")" -gt "$(number "$VERSION")" ]
}

# downgrading: no member can start that joins. The controller cancels the downgrade once this one is in the list.
downgrading() {
	newer || return 1
	case $(ask /v3/maintenance/status -d '{}') in *'"enabled":true'*) return 0 ;; esac
	return 1
}

# become_learner has this machine in the list of members, as learner if it is new, and leaves the endpoint that answered in $via.
# etcdadm itself would add a voter, which costs the quorum if it never starts.
become_learner() {
	deadline=$(($(now) + WAIT)) last="no endpoint is known"
	while :; do
		for via in $ENDPOINTS; do
			members=$(ctl --endpoints "$via" member list 2>&1) || { last="$via: $members"; continue; }
			mine=$(echo "$members" | grep -F " $peer,") || mine=
			case $mine in
			"") ! too_new && last=$(ctl --endpoints "$via" member add "$NAME" --learner --peer-urls="$peer" 2>&1) && {
				say "added as learner through $via"
				return 0
			} ;;
			# Added, and never started.
			*", unstarted,"*) return 0 ;;
			*", $NAME, "*)
				[ -e $DATA ] || die "member $NAME has run, and its data is not here: replace the machine"
				return 0
				;;
			# An earlier machine had this address. Taking its place without its data could lose what it voted for.
			*) last="$peer belongs to another member, which must be removed first: $mine" ;;
			esac
			break
		done
		[ "$(now)" -lt $deadline ] || die "cannot become a learner: $(echo "$last" | tail -n 1)"
		sleep 1
	done
}

begin() {
	runs && return 0
	# etcdadm init removes whatever is there.
	[ ! -e $DATA ] || die "$DATA exists: refusing to begin anew over data"
	etcdadm_init || die "etcdadm init failed"
}

# obtain fetches the snapshot of the seed and restores it. Its revisions jump, so that each watch and each cache begins again, and the ID of the
# cluster is a new one, so that no member of the one before can join it.
obtain() {
	umask 077
	rm -rf $SEED
	mkdir -p $SEED
	deadline=$(($(now) + WAIT))
	until curl --fail --silent --show-error --max-time 3600 --cacert /etc/quorate/etcd/seed.crt --connect-to "$SEED_HOST:443:$SEED_ADDRESS" \
		--header @/etc/quorate/etcd/seed.token --output $SEED/snapshot.db "https://$SEED_HOST/$SEED_PATH"; do
		[ "$(now)" -lt $deadline ] || die "no snapshot was handed out within $WAIT s"
		sleep 1
	done
	echo "$SEED_SHA256  $SEED/snapshot.db" | sha256sum -c - || die "the snapshot is not the one that was approved"
	"$TOOLS/etcdutl" snapshot restore $SEED/snapshot.db --name "$NAME" --initial-cluster "$NAME=$peer" --initial-advertise-peer-urls "$peer" \
		--initial-cluster-token "$SEED_CLUSTER" --data-dir $SEED/data --bump-revision 1000000000 --mark-compacted ||
		die "etcdutl $VERSION cannot restore the snapshot"
	rm -f $SEED/snapshot.db
	umask 022
}

restore() {
	if ! runs; then
		# etcdadm init removes whatever is there.
		[ ! -e $DATA ] || die "$DATA exists: refusing to restore a seed over data"
		obtain
		etcdadm_init || say "etcdadm init: exit code $?"
		deadline=$(($(now) + WAIT))
		until runs; do
			[ "$(now)" -lt $deadline ] || die "etcd does not run: see its log"
			sleep 1
		done
	fi
	# From now on etcd.service is the one of any other member.
	rm -rf $SEED $STARTS /etc/quorate/etcd/seed.token
	systemctl daemon-reload
}

join() {
	end=$(($(now) + WAIT))
	until runs; do
		become_learner
		if downgrading; then
			[ "$(now)" -lt $end ] || die "a downgrade of etcd stays enabled, and no member can start"
			sleep 1
			continue
		fi
		# etcdadm does not stop a unit that is starting or is being restarted, and would remove the data below a running etcd.
		systemctl stop $UNIT >/dev/null 2>&1
		# It fails on a learner, waits while other members cannot be reached, and leaves an etcd that cannot start when the members
		# changed meanwhile, which its repetition mends. What counts is whether etcd runs.
		etcdadm_join "$via" || say "etcdadm join: exit code $?"
		for _ in 1 2 3 4 5 6 7 8 9 10; do
			runs && break
			sleep 0.5
		done
		[ "$(now)" -lt $end ] || break
	done
	runs || die "etcd does not run: see its log"
	deadline=$(($(now) + PROMOTION))
	until loopback endpoint health >/dev/null 2>&1; do
		[ "$(now)" -lt $deadline ] || { say "still a learner, which the controller promotes"; break; }
		sleep 0.2
	done
}

command -v etcdadm >/dev/null || die "there is no etcdadm in $PATH: the machine's image must have it, or etcdadmInstallCommands install it"
# own has the address of a family from which the machine reaches others.
own() { ip "$1" -o route get "$2" 2>/dev/null | sed -n 's/.* src \([0-9a-f.:]*\).*/\1/p'; }
# etcdadm takes the address of IPv4 for the member's, where there is one. Of one of IPv6 it makes URLs without brackets, which etcd does
# not read.
address=$(own -4 192.0.2.1)
if [ -z "$address" ]; then
	address=$(own -6 2001:db8::1)
	[ -z "$address" ] || die "the only address is $address: etcdadm needs one of IPv4 too, as it writes URLs of IPv6 that etcd does not read"
	die "there is no default route, from which etcdadm takes the member's address"
fi
peer=https://$address:2380
fetch
metrics
case $ROLE in
init) begin ;;
join) join ;;
restore) restore ;;
*) die "ROLE is $ROLE, want init, join or restore" ;;
esac
loopback endpoint status -w fields 2>/dev/null | grep -E '"(Version|IsLearner|MemberID)"' | tr '\n' ' '
echo
