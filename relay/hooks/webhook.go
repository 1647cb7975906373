package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"xdsrelay/relay/rollout"
)

// question is what a webhook is sent.
type question struct {
	Check    string        `json:"check"`
	Policy   string        `json:"policy"`
	Key      string        `json:"key"`
	Revision string        `json:"revision"`
	Step     int           `json:"step"`
	Steps    int           `json:"steps"`
	Share    rollout.Share `json:"share"`
	Final    bool          `json:"final"`
	Canaries asked         `json:"canaries"`
	Control  asked         `json:"control"`
}

type asked struct {
	Clients int      `json:"clients"`
	IDs     []string `json:"ids"`
}

func askedOf(a *rollout.Asked) asked {
	return asked{a.Clients, append([]string{}, a.IDs[:min(len(a.IDs), rollout.MaxAsked)]...)}
}

// verdict is what a webhook answers.
type verdict struct {
	Answer string `json:"answer"`
	Reason string `json:"reason"`
}

// askWebhook asks for a verdict on a step.
func (c *Client) askWebhook(ctx context.Context, q *rollout.Question, is *rollout.CheckResult) error {
	body, err := json.Marshal(question{
		Check: q.Check.Name, Policy: q.Policy, Key: q.Key, Revision: q.Revision, Step: q.Step, Steps: q.Steps, Share: q.Share, Final: q.Final,
		Canaries: askedOf(&q.Canaries), Control: askedOf(&q.Control),
	})
	if err != nil {
		return err
	}
	status, body, err := c.post(ctx, &request{q.Check.Webhook, "application/json", q.Check.TokenFile, body})
	if err == nil {
		err = refusal(status)
	}
	if err != nil {
		return err
	}
	var v verdict
	if json.Unmarshal(body, &v) != nil {
		return errors.New(`the answer is not JSON such as {"answer": "pass"}`)
	}
	is.Text = v.Reason
	switch v.Answer {
	case "pass":
		is.Outcome, is.Reply = rollout.Passes, rollout.Decisive
	case "fail":
		is.Outcome, is.Reply = rollout.Fails, rollout.Decisive
	case "wait":
		is.Reply = rollout.MoreTime
	default:
		return fmt.Errorf("the answer is %.20q, expected pass, fail or wait", v.Answer)
	}
	if is.Text == "" {
		is.Text = "the webhook answers " + v.Answer
	}
	return nil
}
