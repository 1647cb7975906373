package resource

import "fmt"

// An entry of a response uses hundreds of bytes of memory, however short it is on the wire: 64 MiB
// of empty ones would use many gigabytes. So the entries are counted before they are decoded, and a
// response with disproportionately many of them is rejected.

// spareEntries is how many bytes are added to the size of a response for this check, so that a
// small response may have any entries.
const spareEntries = 1 << 20

// The least bytes that an entry needs on the wire, with tag and length, if a response has very many
// different ones. This does not reject valid responses: a name that differs from a million others
// has at least 3 letters, and a resource has a name and a version or a body.
const (
	leastName     = 4
	leastEntry    = 8
	leastResource = 16
)

// entries are the numbers of entries in a response, by field.
type entries struct{ resources, aliases, removed, removedNames, errors int }

// countEntries counts the entries of an encoded response of a variant. It allocates nothing. The
// error names the field that has too many.
func countEntries(b []byte, delta bool) (n entries, err error) {
	errorsTag := uint64(sotwErrors)
	if delta {
		errorsTag = deltaErrors
	}
	err = eachField(b, func(f field) error {
		switch {
		case f.tag == rspResources:
			n.resources++
			if !delta {
				return nil
			}
			// A malformed resource is reported as invalid later.
			aliases, _ := countFields(f.bytes, resAliases, len(b))
			n.aliases += aliases
		case f.tag == errorsTag:
			n.errors++
		case delta && f.tag == deltaRemoved:
			n.removed++
		case delta && f.tag == deltaRemovedName:
			n.removedNames++
		}
		return nil
	})
	if err != nil {
		return n, err
	}
	for _, of := range []struct {
		field    string
		n, least int
	}{
		{"resources", n.resources, leastResource}, {"resources.aliases", n.aliases, leastName}, {"removed_resources", n.removed, leastName},
		{"removed_resource_names", n.removedNames, leastEntry}, {"resource_errors", n.errors, leastResource},
	} {
		if most := (len(b) + spareEntries) / of.least; of.n > most {
			return n, fmt.Errorf("%s has %d entries, expected at most %d in a response of %d bytes", of.field, of.n, most, len(b))
		}
	}
	return n, nil
}
