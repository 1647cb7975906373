package amplify

import (
	"net/http"
	"testing"

	"xdsrelay/relay/admin"
	"xdsrelay/shard/store"
)

// rolloutRows are the rows of the records of rollouts, which a node reads when it owns a key.
func (v *vault) rolloutRows(t *testing.T, all bool) []row {
	return v.ledgerRows(t, store.RolloutRecord, v.rollout, all, func(t *testing.T, pairs func(text string) []any) {
		t.Helper()
		v.visit(t, func(key, text string) { v.hset(v.store.Name(store.RolloutRecord, key), pairs(text)) })
	})
}

// budgetRows are the rows of the budget, which a node reads for each change of it.
func (v *vault) budgetRows(t *testing.T, all bool) []row {
	return v.ledgerRows(t, store.RolloutBudget, `{"Held":{"key":{"Count":1}},"Level":0,"Changed":"2020-01-01T00:00:00Z","Failures":[],"Open":false}`, all, func(t *testing.T, pairs func(text string) []any) {
		t.Helper()
		last := v.marker()
		v.hset(v.store.Name(store.RolloutBudget, "rollouts"), pairs(last))
		seen := v.tap.expect(last)
		if code := ask(t, http.MethodPost, "http://"+v.Admin+"/rollout/resume?all=true", "", admin.RequestHeader, "1"); code != http.StatusOK {
			t.Fatalf("the order that reads the budget: status %d", code)
		}
		v.await(t, seen)
	})
}

// ordersRows are the rows of the orders of operators, which a node reads before it changes them.
func (v *vault) ordersRows(t *testing.T, all bool) []row {
	seq := 100
	return v.ledgerRows(t, store.RolloutOrders, `{"keys":{"key":{"reason":"test","since":"2020-01-01T00:00:00Z"}},"undone":{"other":{"reason":"test","since":"2020-01-01T00:00:00Z","revisions":["r"],"refused":[{"type_url":"t","stream":"s","name":"n","digest":"00"}]}}}`, all, func(t *testing.T, pairs func(text string) []any) {
		t.Helper()
		last := v.marker()
		seq++
		v.hset(v.store.Name(store.RolloutOrders, "rollouts"), append(pairs(last), "seq", seq))
		seen := v.tap.expect(last)
		if code := ask(t, http.MethodPost, "http://"+v.Admin+"/rollout/unfreeze?all=true", "", admin.RequestHeader, "1"); code != http.StatusConflict {
			t.Fatalf("the order that reads the orders: status %d", code)
		}
		v.await(t, seen)
	})
}

// ledgerRows are the rows of an entry: of each field of its text, which is like sample. write makes the node read what pairs
// returns, which ends with a text.
func (v *vault) ledgerRows(t *testing.T, k store.Kind, sample string, all bool, write func(t *testing.T, pairs func(text string) []any)) (rows []row) {
	t.Helper()
	spoiled(objectOf(t, sample), all, func(field, pattern string, fill func(int) string) {
		rows = append(rows, row{surface: "Redis", message: k.String(), field: field, pattern: pattern, send: func(t *testing.T, size int) int {
			t.Helper()
			value := fill(size)
			write(t, func(text string) []any { return []any{"seq", "1", "epoch", "1", "text", value + text} })
			return len(value)
		}})
	})
	return rows
}
