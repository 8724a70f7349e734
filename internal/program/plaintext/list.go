package plaintext

import (
	"fmt"
	"strings"
)

// mostListed is how many texts List names.
const mostListed = 3

// List names the first three of some texts, and says how many more there are.
func List(texts []string) string {
	list := strings.Join(texts[:min(len(texts), mostListed)], ", ")
	if more := len(texts) - mostListed; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}
