package etcd

import (
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/program/plaintext"
	"github.com/quorate/quorate/internal/program/untrusted"
)

// What a member may answer at most. The cluster's administrator controls what its etcd answers.
const (
	// mostAnswer is how many bytes one answer may have. A list of seven members has less than 2 KB, and grows in memory by ten times.
	mostAnswer = 64 << 10
	// mostHeader is how many bytes the header of an answer may have.
	mostHeader = 16 << 10
	// mostMembers is how many members a list may have. etcd recommends at most seven.
	mostMembers = 50
	// mostURLs is how many addresses a member may have, and mostErrors how many errors it may report.
	mostURLs, mostErrors = 16, 2 * mostMembers
	// longestWord is how many bytes a name, an address or a version may have.
	longestWord = 512
)

// errTooLarge is the error of an answer with more than mostAnswer bytes.
var errTooLarge = untrusted.Nonsense("its answer makes no sense: it has more than %d bytes", mostAnswer)

// tooLarge returns errTooLarge where an answer was larger than is read; nil: it was not.
func tooLarge(err error) error {
	if status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "received message") {
		return errTooLarge
	}
	return nil
}

// shownError is an error whose text is fit to be shown.
type shownError struct{ error }

// Error implements error.
func (e shownError) Error() string { return plain(e.error) }

// Unwrap returns the error as it was.
func (e shownError) Unwrap() error { return e.error }

// isWord reports whether a name, an address or a version is one that may be shown.
func isWord(text string) bool {
	return len(text) <= longestWord && plaintext.Strip(text) == text && !strings.ContainsAny(text, "\n\t")
}

// checkStatus says in what a member's status makes no sense, and makes its errors fit to be shown.
func checkStatus(s *pb.StatusResponse) error {
	for _, word := range []string{s.Version, s.StorageVersion, s.GetDowngradeInfo().GetTargetVersion()} {
		if !isWord(word) {
			return untrusted.Nonsense("its answer makes no sense: a version of %d bytes is no version", len(word))
		}
	}
	if len(s.Errors) > mostErrors {
		return untrusted.Nonsense("its answer makes no sense: it reports %d errors, at most %d are read", len(s.Errors), mostErrors)
	}
	for i, text := range s.Errors {
		if !isWord(text) {
			s.Errors[i] = untrusted.Shown(text)
		}
	}
	return nil
}

// checkList says in what a list of members makes no sense.
func checkList(list []*pb.Member) error {
	if len(list) > mostMembers {
		return untrusted.Nonsense("its answer makes no sense: its list has %d members, at most %d are read", len(list), mostMembers)
	}
	seen := map[uint64]bool{}
	for _, m := range list {
		if seen[m.ID] {
			return untrusted.Nonsense("its answer makes no sense: its list has member %s twice", FormatID(m.ID))
		}
		seen[m.ID] = true
		if len(m.PeerURLs) > mostURLs || len(m.ClientURLs) > mostURLs {
			return untrusted.Nonsense("its answer makes no sense: member %s has more than %d addresses", FormatID(m.ID), mostURLs)
		}
		for _, word := range append([]string{m.Name}, append(m.PeerURLs, m.ClientURLs...)...) {
			if !isWord(word) {
				return untrusted.Nonsense("its answer makes no sense: member %s has a name or an address of %d bytes that is none", FormatID(m.ID),
					len(word))
			}
		}
	}
	return nil
}
