package tier

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"xdsrelay/relay/pause"
	"xdsrelay/upstream"
)

// Bounds of the time between two liveness questions.
const (
	askOften  = 50 * time.Millisecond
	askSeldom = time.Second
)

// streamLife is how long one stream of questions is used: each new stream has to present the
// token of the tier again.
const streamLife = time.Minute

// ask checks at intervals that the node answers, until ctx ends.
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
		if !pause.For(ctx, pause.Next(every)) {
			return
		}
	}
}

// questions is a stream of liveness questions. A question on it costs less than half of a unary
// call. It belongs to one goroutine.
type questions struct {
	ctx    context.Context
	cancel context.CancelFunc // nil while there is no stream
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

// ask asks once. The stream ends if no answer arrives in time.
func (q *questions) ask(timeout time.Duration) error {
	late := time.AfterFunc(timeout, q.cancel)
	used := q.stream != nil
	err := q.exchange()
	if err != nil && used {
		err = q.exchange() // the stream may have ended before the question was sent
	}
	if status.Code(err) == codes.Unimplemented {
		// The previous release answers unary calls only. The next release can drop this.
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

// exchange sends a question and reads the answer. It opens a stream if there is none.
func (q *questions) exchange() (err error) {
	if q.stream == nil {
		if q.stream, err = q.plane.Open(q.ctx, "/"+askService+"/"+askStreamMethod); err != nil {
			return err
		}
	}
	// The receive reports why a send failed.
	_ = q.stream.SendMsg(wrapperspb.String(statusPath))
	if err = q.stream.RecvMsg(&wrapperspb.BytesValue{}); err != nil {
		q.stream = nil
	}
	return err
}
