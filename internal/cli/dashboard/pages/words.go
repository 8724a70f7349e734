package pages

import (
	"regexp"
	"strings"
)

// word is a piece of an advice.
type word struct {
	Text string
	Code bool
}

// link is a link of Markdown. The documents are not served here, so that it becomes the name of the page.
var link = regexp.MustCompile("\\[(`?)([^\\]`]*)`?\\]\\(([^)#]*)[^)]*\\)")

// words splits a text in Markdown of advices into its pieces: code, and all else, with the names of pages instead of links.
func words(text string) []word {
	text = link.ReplaceAllStringFunc(text, func(found string) string {
		part := link.FindStringSubmatch(found)
		switch {
		case part[1] != "":
			return "`" + part[2] + "`"
		case strings.HasPrefix(part[3], part[2]):
			return "docs/" + part[3]
		}
		return part[2] + " (docs/" + part[3] + ")"
	})
	var all []word
	for i, piece := range strings.Split(text, "`") {
		if piece != "" {
			all = append(all, word{piece, i%2 == 1})
		}
	}
	return all
}
