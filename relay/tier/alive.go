package tier

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"xdsrelay/upstream"
)

// Bounds of the time between two questions.
const (
	askOften  = 50 * time.Millisecond
	askSeldom = time.Second
)

// streamLife is how long a stream of questions is used: a new stream has to show the token of
// the tier again.
const streamLife = time.Minute

// ask asks the node whether it is there, until ctx ends.
func (p *peer) ask(ctx context.Context) {
	timeout := p.owner.cfg.Timeout
	every := min(max(timeout/2, askOften), askSeldom)
	var q questions
	defer func() { q.end() }()
	for {
		asked := time.Now()
		if q.cancel == nil || asked.Sub(q.since) >= streamLife {
			q.end()
			q = newQuestions(ctx, p.plane)
		}
		err := q.ask(timeout)
		if ctx.Err() != nil {
			return
		}
		p.heard(err, asked)
		if !pauseFor(ctx, untilNext(every)) {
			return
		}
	}
}

// askMoment is when in each second questions are asked: not with its beginning, as much else is.
const askMoment = 137 * time.Millisecond

// untilNext is the time until the next questions. All nodes ask all others at the same moments,
// by the clock: to wake up costs most of what a question or an answer does.
func untilNext(every time.Duration) time.Duration {
	return every - time.Duration(time.Now().Add(-askMoment).UnixNano())%every
}

// questions is the stream of the questions whether a node is there, which costs less than half
// of a call for each of them. It belongs to one goroutine.
type questions struct {
	ctx    context.Context
	cancel context.CancelFunc // nil for no stream
	plane  *upstream.ControlPlane
	since  time.Time
	stream grpc.ClientStream // nil before the first question
}

func newQuestions(ctx context.Context, plane *upstream.ControlPlane) questions {
	ctx, cancel := context.WithCancel(ctx)
	return questions{ctx: ctx, cancel: cancel, plane: plane, since: time.Now()}
}

// end ends the stream.
func (q *questions) end() {
	if q.cancel != nil {
		q.cancel()
	}
	*q = questions{}
}

// ask asks once. The stream ends where there is no answer in time.
func (q *questions) ask(timeout time.Duration) error {
	late := time.AfterFunc(timeout, q.cancel)
	used := q.stream != nil
	err := q.exchange()
	if err != nil && used {
		err = q.exchange() // the stream may have ended long before the question
	}
	if status.Code(err) == codes.Unimplemented {
		// The release before this one knows calls only. They can go with the next release.
		_, err = ask(q.ctx, q.plane, statusPath)
	}
	inTime := late.Stop()
	if err != nil && !inTime {
		err = status.Errorf(codes.DeadlineExceeded, "no answer within %s", timeout)
	}
	if err != nil || !inTime {
		q.end()
	}
	return err
}

// exchange sends a question and reads the answer, on a new stream where there is none.
func (q *questions) exchange() (err error) {
	if q.stream == nil {
		if q.stream, err = q.plane.Open(q.ctx, "/"+askService+"/"+askStreamMethod); err != nil {
			return err
		}
	}
	// What fails to be sent, the receive reports.
	_ = q.stream.SendMsg(wrapperspb.String(statusPath))
	if err = q.stream.RecvMsg(&wrapperspb.BytesValue{}); err != nil {
		q.stream = nil
	}
	return err
}
