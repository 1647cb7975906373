package aggregation

import (
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// isKey ends the one step of a path that stands for "this field is the key's text".
// No field of a Node has such a name.
const isKey = "=key"

// shownPath is what a rule with NodeField passes in the place of what its key reads.
func (r Rule) shownPath() path { return path{r.NodeField + isKey} }

func isShown(p path) bool { return strings.HasSuffix(p[0], isKey) }

// show puts the key's text where the rule says.
func (r Rule) show(n *corev3.Node, text string) {
	switch r.NodeField {
	case "id":
		n.Id = text
	case "cluster":
		n.Cluster = text
	}
}

// checkShown looks at NodeField, and whether the pass list wants the same field.
func (c *compiler) checkShown() {
	as := c.config.NodeField
	if as != "id" && as != "cluster" {
		c.fail("node_field", 0, "", issue{message: fmt.Sprintf("%q is not a field that can show the key, expected id or cluster", as)})
		return
	}
	for i, entry := range c.config.PassFields {
		if strings.TrimSpace(entry) == as {
			c.fail("pass_fields", i, entry, issue{1, 1, "is the field that shows the key, see node_field"})
		}
	}
}
