package admin

import (
	"errors"
	"net/http"
	"strconv"

	"xdsrelay/relay/ops"
)

// rolloutPages are the questions about what clients see of what control planes send.
func (t Tier) rolloutPages(v *watcher) []page {
	return []page{
		{apiPath + "rollout", "", "the keys that are frozen, undone or staged, or the state of one key: what is held back, since when, and why", v.apiRollout, []string{ops.ParamKey, paramActive}},
		{apiPath + "rollout/history", apiPath + "rollout/history?key=NAME", "the last revisions of a key on this node", answerKey(func(key string) (any, error) { return t.Rollout.History(key) }), []string{ops.ParamKey}},
		{apiPath + "rollout/plan", apiPath + "rollout/plan?key=NAME", "which clients would get what is pending first, by the rollout policy of a key", answerKey(func(key string) (any, error) { return t.Rollout.Plan(key) }), []string{ops.ParamKey}},
		{apiPath + "rollout/diff", apiPath + "rollout/diff?key=NAME", "what is held back of a key on this node: fields without secrets", answerKey(func(key string) (any, error) { return t.Rollout.Diff(key) }), []string{ops.ParamKey}},
	}
}

// paramActive limits the keys to those to which something happens.
const paramActive = "active"

// apiRollout answers with the state of all keys, of one, or of those to which something happens. The live page
// asks for the latter every few seconds.
func (v *watcher) apiRollout(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get(ops.ParamKey)
	active := false
	if text := r.URL.Query().Get(paramActive); text != "" {
		var err error
		if active, err = strconv.ParseBool(text); err != nil || active && key != "" {
			apiError(w, http.StatusBadRequest, errors.New("active: got "+strconv.Quote(text)+", expected true or false, and no key"))
			return
		}
	}
	if active {
		writeTagged(w, r, v.rollouts(r.Context()))
		return
	}
	answer, err := v.cfg.Tier.Rollout.Status(key)
	if err != nil {
		apiError(w, http.StatusNotFound, errors.New("this node has no key "+strconv.Quote(key)))
		return
	}
	writeJSON(w, http.StatusOK, answer)
}

// answerKey answers a question about a key.
func answerKey(ask func(key string) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key := r.URL.Query().Get(ops.ParamKey)
		if key == "" {
			apiError(w, http.StatusBadRequest, errors.New("the parameter key is missing: expected ?key=KEY"))
			return
		}
		answer, err := ask(key)
		if err != nil {
			apiError(w, http.StatusNotFound, errors.New("this node has no key "+strconv.Quote(key)))
			return
		}
		writeJSON(w, http.StatusOK, answer)
	}
}

// pathRollout is before the orders about rollouts.
const pathRollout = "/rollout/"

// rolloutOrders are the orders about what clients see.
func (cfg Config) rolloutOrders() []order {
	return []order{
		{pathRollout + "freeze", cfg.rolloutOrder(ops.OrderFreeze), []string{ops.ParamKey, ops.ParamAll, ops.ParamReason}},
		{pathRollout + "unfreeze", cfg.rolloutOrder(ops.OrderUnfreeze), []string{ops.ParamKey, ops.ParamAll}},
		{pathRollout + "undo", cfg.rolloutOrder(ops.OrderUndo), []string{ops.ParamKey, ops.ParamReason}},
		{pathRollout + "approve", cfg.rolloutOrder(ops.OrderApprove), []string{ops.ParamKey}},
		{pathRollout + "pause", cfg.rolloutOrder(ops.OrderPause), []string{ops.ParamKey, ops.ParamReason}},
		{pathRollout + "resume", cfg.rolloutOrder(ops.OrderResume), []string{ops.ParamKey, ops.ParamAll}},
		{pathRollout + "abort", cfg.rolloutOrder(ops.OrderAbort), []string{ops.ParamKey, ops.ParamReason}},
		{pathRollout + "retry", cfg.rolloutOrder(ops.OrderRetry), []string{ops.ParamKey}},
		{pathPromote, cfg.rolloutOrder(ops.OrderPromote), []string{ops.ParamKey, ops.ParamReason}},
	}
}

// rolloutOrder carries an order out.
func (cfg Config) rolloutOrder(do string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := r.URL.Query()
		all := false
		if text := v.Get(ops.ParamAll); text != "" {
			var err error
			if all, err = strconv.ParseBool(text); err != nil {
				apiError(w, http.StatusBadRequest, errors.New("all: got "+strconv.Quote(text)+", expected true or false"))
				return
			}
		}
		o := ops.RolloutOrder{Do: do, Key: v.Get(ops.ParamKey), Reason: v.Get(ops.ParamReason), By: cfg.Access.identity(r)}
		if err := o.Check(all); err != nil {
			apiError(w, http.StatusBadRequest, err)
			return
		}
		done, err := cfg.Tier.Rollout.Order(r.Context(), o)
		switch {
		case errors.Is(err, ops.ErrUnknownKey):
			apiError(w, http.StatusNotFound, errors.New("this node has no key "+strconv.Quote(o.Key)))
		case err != nil:
			apiError(w, http.StatusConflict, err)
		default:
			writeJSON(w, http.StatusOK, done)
		}
	}
}
