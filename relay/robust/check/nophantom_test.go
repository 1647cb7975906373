package check

import "testing"

// TestNoPhantom: content that the origin has, but has not served, is seen.
func TestNoPhantom(t *testing.T) {
	const of = "NoPhantom"
	changed := start(origin(clusterType, "a", 4))
	mustFind(t, forge(t, of, append(changed, got(1, clusterType, res("a", 4)))), "a@4 of Cluster was never served by the origin")
	mustFind(t, forge(t, of, append(changed, got(1, clusterType, res("a", 9)))), "a@9 of Cluster was never served by the origin")
	mustBeFine(t, forge(t, of, append(changed, sent(clusterType, res("a", 4)), got(1, clusterType, res("a", 4)))))
}
