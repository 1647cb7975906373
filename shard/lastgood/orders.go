package lastgood

import (
	"errors"
	"io/fs"
)

// OrdersFile is the file of a [Directory] with the orders of operators that are in force.
const OrdersFile = "rollout.orders"

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
