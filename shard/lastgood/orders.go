package lastgood

import (
	"errors"
	"io/fs"
)

// The files of a [Directory] besides its records.
const (
	// OrdersFile has the orders of operators that are in force.
	OrdersFile = "rollout.orders"
	// RolloutsFile has how far the rollouts of keys are.
	RolloutsFile = "rollout.records"
)

// Rollouts returns what [Directory.SaveRollouts] has written last; nothing if there is none.
func (d *Directory) Rollouts() ([]byte, error) {
	text, err := d.read(RolloutsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// SaveRollouts is [Directory.SaveOrders] for how far rollouts are: digests of content, and hashes of
// clients.
func (d *Directory) SaveRollouts(text []byte) error { return d.write(RolloutsFile, text) }

// Orders returns what [Directory.SaveOrders] has written last; nothing if there is none.
func (d *Directory) Orders() ([]byte, error) {
	text, err := d.read(OrdersFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// SaveOrders writes orders to the directory of the records. The file is complete, old or new,
// whenever the program or the machine stops. It is not encrypted: it has names and reasons, and no
// content.
func (d *Directory) SaveOrders(text []byte) error { return d.write(OrdersFile, text) }
