package upstream

import "github.com/goccy/go-yaml/ast"

// yamlPair is a key of a mapping with its value.
type yamlPair struct {
	key   string
	node  ast.Node // the key
	value ast.Node
}

func (d *yamlDoc) mapping(n ast.Node, depth int) error {
	if err := d.emit(n, "{"); err != nil {
		return err
	}
	pairs, err := d.pairs(n, depth)
	if err != nil {
		return err
	}
	for i, p := range pairs {
		key := quote(p.key) + ":"
		if i > 0 {
			key = "," + key
		}
		if err := d.emit(p.node, key); err != nil {
			return err
		}
		if err := d.value(p.value, depth+1); err != nil {
			return err
		}
	}
	return d.emit(nil, "}")
}

// pairs returns the pairs of a mapping, followed by those that it merges in. Where both have a key,
// the mapping's own pair wins.
func (d *yamlDoc) pairs(n ast.Node, depth int) (pairs []yamlPair, err error) {
	if err := d.visit(n, depth); err != nil {
		return nil, err
	}
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	}
	var merged []yamlPair
	for _, v := range values {
		if err := d.visit(v, depth); err != nil {
			return nil, err
		}
		if _, ok := v.Key.(*ast.MergeKeyNode); ok {
			more, err := d.merge(v.Value, depth+1)
			if err != nil {
				return nil, err
			}
			merged = append(merged, more...)
			continue
		}
		key, err := d.key(v.Key)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, yamlPair{key, v.Key, v.Value})
	}
	if len(merged) == 0 {
		return pairs, nil
	}
	have := make(map[string]struct{}, len(pairs)+len(merged))
	for _, p := range pairs {
		have[p.key] = struct{}{}
	}
	for _, p := range merged {
		if _, ok := have[p.key]; !ok {
			have[p.key] = struct{}{}
			pairs = append(pairs, p)
		}
	}
	return pairs, nil
}

// merge returns the pairs of the value of a merge key.
func (d *yamlDoc) merge(n ast.Node, depth int) ([]yamlPair, error) {
	if err := d.visit(n, depth); err != nil {
		return nil, err
	}
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return d.pairs(n, depth)
	case *ast.AnchorNode:
		d.anchors[n.Name.GetToken().Value] = n.Value
		return d.merge(n.Value, depth+1)
	case *ast.AliasNode:
		target, err := d.resolve(n)
		if err != nil {
			return nil, err
		}
		return d.merge(target, depth+1)
	case *ast.SequenceNode:
		var all []yamlPair
		for _, v := range n.Values {
			more, err := d.merge(v, depth+1)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
		return all, nil
	}
	return nil, errorAt(positionOf(n), "the value of << is no mapping")
}

// key returns the text of a key; in JSON keys are always strings.
func (d *yamlDoc) key(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.AnchorNode:
		d.anchors[n.Name.GetToken().Value] = n.Value
		return d.key(n.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.LiteralNode:
		return n.GetToken().Value, nil
	}
	return "", errorAt(positionOf(n), "this cannot be a key, expected a string")
}
