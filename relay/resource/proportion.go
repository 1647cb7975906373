package resource

import "fmt"

// An entry of a response takes hundreds of bytes of memory, however short it is on the wire:
// 64 MiB of empty ones would take many gigabytes. So the entries are counted before anything
// is made of them, and a response is refused that has out of proportion many of them.

// spareEntries is how many bytes of entries a response may lack, so that a small one may have
// whatever it likes.
const spareEntries = 1 << 20

// The least that an entry takes on the wire, tag and length included, where a response has
// very many different ones. More than the spare need not have less: a name that differs from
// a million others has at least 3 letters, and a resource has a name and a version or a body.
const (
	leastName     = 4
	leastEntry    = 8
	leastResource = 16
)

// entries are how many a response has, by field.
type entries struct{ resources, aliases, removed, removedNames, errors int }

// countEntries counts the entries of an encoded response of a variant. It allocates nothing.
// The error names the field that has too many.
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
			// One that cannot be read is invalid by itself.
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
