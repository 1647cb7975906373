package aggregation

import (
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// isKey ends the one step of a path that stands for "this field is the key's text".
// No field of a Node has such a name.
const isKey = "=key"

// shownPath is what a rule with ShownAs passes in the place of what its key reads.
func (r Rule) shownPath() path { return path{r.ShownAs + isKey} }

func isShown(p path) bool { return strings.HasSuffix(p[0], isKey) }

// show puts the key's text where the rule says.
func (r Rule) show(n *corev3.Node, text string) {
	switch r.ShownAs {
	case "id":
		n.Id = text
	case "cluster":
		n.Cluster = text
	}
}

// checkShown looks at ShownAs, and whether the pass list wants the same field.
func (c *compiler) checkShown() {
	as := c.config.ShownAs
	if as != "id" && as != "cluster" {
		c.fail("shown_as", 0, "", issue{message: fmt.Sprintf("%q is not a field that can show the key, expected id or cluster", as)})
		return
	}
	for i, entry := range c.config.Pass {
		if strings.TrimSpace(entry) == as {
			c.fail("pass", i, entry, issue{1, 1, "is the field that shows the key, see shown_as"})
		}
	}
}
