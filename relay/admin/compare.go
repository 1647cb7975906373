package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"xdsrelay/relay/ops"
)

// apiCompare compares what two clients or two keys have.
func (t Tier) apiCompare(w http.ResponseWriter, r *http.Request) {
	q, err := ops.ParseCompare(r.URL.Query())
	if err != nil {
		apiError(w, http.StatusBadRequest, err)
		return
	}
	c, err := t.Model.Compare(r.Context(), q)
	var side *ops.SideError
	switch {
	case errors.As(err, &side):
		apiError(w, http.StatusNotFound, t.sideError(r.Context(), side))
	case err != nil:
		apiError(w, http.StatusBadRequest, err)
	default:
		writeJSON(w, http.StatusOK, c)
	}
}

// sideError says of an unknown side what is worth knowing: similar names, and whether it is the name of a key
// instead of a client.
func (t Tier) sideError(ctx context.Context, err *ops.SideError) error {
	side := err.Side
	if side.Kind == ops.KeySide {
		if side.Node != "" {
			return fmt.Errorf("node %s does not have the key %q", side.Node, side.Name)
		}
		return t.keyError(ctx, ops.ErrUnknownKey, side.Name, err.Found.Silent)
	}
	text := "no client has the name " + strconv.Quote(side.Name)
	if side.Node != "" {
		text += " on node " + side.Node
	}
	if len(t.Model.Keys(ctx, ops.KeyQuery{Key: side.Name}).Keys) > 0 {
		text += "; it is the name of a key: compare keys instead ('xdsrelay diff --keys')"
	} else if near := slices.Concat(err.Found.Names, err.Found.Similar); len(near) > 0 {
		for i := range near {
			near[i] = strconv.Quote(near[i])
		}
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	parts := []string{text}
	for _, s := range err.Found.Silent {
		parts = append(parts, "node "+s.Node+", which did not answer, may have it")
	}
	return errors.New(strings.Join(parts, "; "))
}
