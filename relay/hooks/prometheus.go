package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"

	"xdsrelay/relay/rollout"
)

// Answers of the HTTP API of Prometheus: https://prometheus.io/docs/prometheus/latest/querying/api/
type (
	queryAnswer struct {
		Status    string    `json:"status"`
		ErrorType string    `json:"errorType"`
		Error     string    `json:"error"`
		Data      queryData `json:"data"`
	}
	queryData struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	}
	series struct {
		Value *sample `json:"value"` // nil: it has a histogram instead
	}
)

// sample is a value at a time, as [1435781451.781, "0.5"].
type sample float64

// UnmarshalJSON reads the value. The time is that of the question.
func (s *sample) UnmarshalJSON(text []byte) error {
	var pair []json.RawMessage
	var value string
	if err := json.Unmarshal(text, &pair); err != nil || len(pair) != 2 {
		return errors.New("a sample is no pair of time and value")
	}
	if err := json.Unmarshal(pair[1], &value); err != nil {
		return errors.New("the value of a sample is no string")
	}
	number, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return errors.New("the value of a sample is no number")
	}
	*s = sample(number)
	return nil
}

// askPrometheus evaluates the query of a check.
func (c *Client) askPrometheus(ctx context.Context, q *rollout.Question, is *rollout.CheckResult) error {
	threshold, err := rollout.ParseThreshold(q.Check.Fail)
	if err != nil {
		return err
	}
	query, err := rollout.ParseQuery(q.Check.Query)
	if err != nil {
		return err
	}
	text, err := query.For(q)
	if err != nil {
		is.Reply, is.Text = rollout.Empty, err.Error()
		return nil //nolint:nilerr // it is the answer
	}
	target, err := url.JoinPath(q.Check.Prometheus, "api/v1/query")
	if err != nil {
		return errors.New("the URL cannot be used")
	}
	form := url.Values{"query": {text}, "timeout": {strconv.FormatFloat(q.Check.Timeout.Seconds(), 'f', 3, 64)}}
	status, body, err := c.post(ctx, &request{target, "application/x-www-form-urlencoded", q.Check.TokenFile, []byte(form.Encode())})
	if err != nil {
		return err
	}
	values, err := valuesOf(status, body)
	switch {
	case err != nil:
		return err
	case len(values) == 0:
		is.Reply, is.Text = rollout.Empty, "the query has no value"
		return nil
	case len(values) > 1:
		is.Reply, is.Text = rollout.Empty, fmt.Sprintf("the query has %d values, expected one; use an aggregation such as max()", len(values))
		return nil
	}
	value := values[0]
	if is.Outcome = threshold.Of(value); is.Outcome == rollout.NotEnough {
		is.Reply, is.Text = rollout.Empty, fmt.Sprintf("the value is %v", value)
		return nil
	}
	is.Reply, is.Text = rollout.Decisive, fmt.Sprintf("the value is %s, the step fails if it is %s", number(value), q.Check.Fail)
	return nil
}

func number(value float64) string {
	if math.IsInf(value, 0) {
		return fmt.Sprint(value)
	}
	return strconv.FormatFloat(value, 'g', 6, 64)
}

// valuesOf are the values of an answer.
func valuesOf(status int, body []byte) (all []float64, err error) {
	var answer queryAnswer
	problem := json.Unmarshal(body, &answer)
	switch refused := refusal(status); {
	case refused != nil && problem == nil && answer.Error != "":
		return nil, fmt.Errorf("%w: %s: %s", refused, answer.ErrorType, answer.Error)
	case refused != nil:
		return nil, refused
	case problem != nil:
		return nil, errors.New("the answer is not that of the HTTP API of Prometheus")
	case answer.Status != "success":
		return nil, fmt.Errorf("the answer has the status %.20q", answer.Status)
	}
	switch answer.Data.ResultType {
	case "scalar":
		var one sample
		if err := json.Unmarshal(answer.Data.Result, &one); err != nil {
			return nil, err
		}
		return []float64{float64(one)}, nil
	case "vector":
		var vector []series
		if err := json.Unmarshal(answer.Data.Result, &vector); err != nil {
			return nil, err
		}
		for _, s := range vector {
			if s.Value == nil {
				return nil, errors.New("the query has a value that is no number, such as a histogram")
			}
			all = append(all, float64(*s.Value))
		}
		return all, nil
	}
	return nil, fmt.Errorf("the query has a value of type %.20q, expected a number or an instant vector", answer.Data.ResultType)
}
