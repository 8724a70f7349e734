package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
)

// longestQuoted is how many bytes of an annotation an error quotes.
const longestQuoted = 200

// Moments reads the value of an annotation that has a time for each of some machines, sorted by name. Of a machine that is named twice the
// later time holds. The error names the annotation, its value and what is accepted.
func Moments(annotation, text string) ([]plan.Replacement, error) {
	at := map[string]time.Time{}
	for _, entry := range strings.Split(text, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		name, moment, _ := strings.Cut(entry, "=")
		read, err := time.Parse(time.RFC3339, moment)
		if name == "" || err != nil {
			return nil, fmt.Errorf("the annotation %s is %q; names of machines with times are accepted, such as "+
				"demo-cp-1=2026-11-23T04:05:06Z,demo-cp-2=2026-11-23T09:00:00Z", annotation, Clean(text, longestQuoted))
		}
		if read.After(at[name]) {
			at[name] = read.UTC()
		}
	}
	var all []plan.Replacement
	for name, moment := range at {
		all = append(all, plan.Replacement{Machine: name, At: moment})
	}
	slices.SortFunc(all, func(a, b plan.Replacement) int { return strings.Compare(a.Machine, b.Machine) })
	return all, nil
}

// ParseAsked reads controlplanev1.ReplaceAnnotation, sorted by name: which machines people asked to be replaced, each with the time after
// which a machine of that name is not meant. The error names the annotation, its value and what is accepted.
func ParseAsked(text string) ([]plan.Replacement, error) {
	if len(text) > controlplanev1.MaxReplaceLength {
		return nil, fmt.Errorf("the annotation %s has %d bytes, must have at most %d",
			controlplanev1.ReplaceAnnotation, len(text), controlplanev1.MaxReplaceLength)
	}
	all, err := Moments(controlplanev1.ReplaceAnnotation, text)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if len(validation.IsDNS1123Subdomain(one.Machine)) > 0 {
			return nil, fmt.Errorf("the annotation %s names %q, which cannot be the name of a Machine",
				controlplanev1.ReplaceAnnotation, Clean(one.Machine, longestQuoted))
		}
	}
	return all, nil
}
