package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// A placeholder is a learner that no process ever starts. It takes one of etcd's learner slots, so that no other member can join as a
// learner. The list of members alone tells that a learner is one: by the user name in its peer URL, which kubeadm and etcd never write.
// Members try to reach it at their own loopback address and the port of the service discard: that asks no name server, leaves no host and
// is refused at once.
const (
	placeholderUser = "quorate-placeholder"
	placeholderHost = "127.0.0.1:9"
)

// placeholderURL is the peer URL of one of several placeholders, which must differ.
func placeholderURL(n int) string {
	user := placeholderUser
	if n > 0 {
		user += "-" + strconv.Itoa(n)
	}
	return (&url.URL{Scheme: "https", User: url.User(user), Host: placeholderHost}).String()
}

// IsPlaceholder reports whether the member is a learner that was added by AddPlaceholder.
func (m Member) IsPlaceholder() bool {
	return m.Learner && m.Name == "" && slices.ContainsFunc(m.PeerURLs, func(text string) bool {
		u, err := url.Parse(text)
		return err == nil && u.Host == placeholderHost && strings.HasPrefix(u.User.Username(), placeholderUser)
	})
}

// AddPlaceholder adds one placeholder. The order goes to one voter after the other, the leader first, 2 s each, and again until it is done,
// ctx ends or 10 s are over. It is no error when etcd takes no more learners and a placeholder is one of them, nor when the answer to an
// order is lost and the list then has one placeholder more. Other refusals for want of a slot end it at once.
func (c *Cluster) AddPlaceholder(ctx context.Context, targets []Target) error {
	before := -1
	err := again(ctx, func(ctx context.Context) error {
		answers := c.ask(ctx, targets)
		seen := conclude(answers)
		switch there := placeholders(seen.Members); {
		case before >= 0 && there > before:
			return nil // an order before was carried out
		case before < 0 && seen.Known:
			before = there
		}
		err := errors.New("no member follows a leader: " + seen.Why)
		for _, a := range able(answers, 0) {
			err = c.order(ctx, a.target, func(ctx context.Context, conn *grpc.ClientConn) error {
				_, err := pb.NewClusterClient(conn).MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: []string{freePlaceholder(seen.Members)},
					IsLearner: true})
				return err
			})
			full := errors.Is(err, rpctypes.ErrTooManyLearners) || errors.Is(err, rpctypes.ErrPeerURLExist)
			if full && (placeholders(seen.Members) > 0 || placeholders(conclude(c.ask(ctx, targets)).Members) > 0) {
				return nil
			}
			if errors.Is(err, rpctypes.ErrMemberNotFound) {
				// A member's ID follows from its peer URL and the second in which it is added: that of a placeholder which was removed in this second
				// is spent.
				return errors.New("its ID is that of a member which was removed a moment ago: " + err.Error())
			}
			if err == nil || refusedForGood(err) {
				return err
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("adding a placeholder to etcd's learners: %w", err)
	}
	return nil
}

// placeholders counts the placeholders in a list of members.
func placeholders(members []Member) int {
	n := 0
	for _, m := range members {
		if m.IsPlaceholder() {
			n++
		}
	}
	return n
}

// freePlaceholder is a peer URL of a placeholder that no member has.
func freePlaceholder(members []Member) string {
	for n := 0; ; n++ {
		at := placeholderURL(n)
		if !slices.ContainsFunc(members, func(m Member) bool { return slices.Contains(m.PeerURLs, at) }) {
			return at
		}
	}
}
