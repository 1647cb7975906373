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

// lineLife is how long a stream of questions is used: a new stream has to show the token of
// the tier again.
const lineLife = time.Minute

// ask asks the node whether it is there, until ctx ends.
func (p *peer) ask(ctx context.Context) {
	timeout := p.owner.cfg.Timeout
	every := min(max(timeout/2, askOften), askSeldom)
	var l line
	defer func() { l.hangUp() }()
	for {
		asked := time.Now()
		if l.end == nil || asked.Sub(l.since) >= lineLife {
			l.hangUp()
			l = newLine(ctx, p.plane)
		}
		err := l.ask(timeout)
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

// line is the stream of the questions whether a node is there, which costs less than half of a
// call for each of them. It belongs to one goroutine.
type line struct {
	ctx    context.Context
	end    context.CancelFunc // nil for no line
	plane  *upstream.ControlPlane
	since  time.Time
	stream grpc.ClientStream // nil before the first question
}

func newLine(ctx context.Context, plane *upstream.ControlPlane) line {
	ctx, end := context.WithCancel(ctx)
	return line{ctx: ctx, end: end, plane: plane, since: time.Now()}
}

// hangUp ends the line.
func (l *line) hangUp() {
	if l.end != nil {
		l.end()
	}
	*l = line{}
}

// ask asks once. The line ends where there is no answer in time.
func (l *line) ask(timeout time.Duration) error {
	late := time.AfterFunc(timeout, l.end)
	used := l.stream != nil
	err := l.exchange()
	if err != nil && used {
		err = l.exchange() // the stream may have ended long before the question
	}
	if status.Code(err) == codes.Unimplemented {
		// The release before this one knows calls only. They can go with the next release.
		_, err = ask(l.ctx, l.plane, statusPath)
	}
	inTime := late.Stop()
	if err != nil && !inTime {
		err = status.Errorf(codes.DeadlineExceeded, "no answer within %s", timeout)
	}
	if err != nil || !inTime {
		l.hangUp()
	}
	return err
}

// exchange sends a question and reads the answer, on a new stream where there is none.
func (l *line) exchange() (err error) {
	if l.stream == nil {
		if l.stream, err = l.plane.Open(l.ctx, "/"+askService+"/"+askStreamMethod); err != nil {
			return err
		}
	}
	// What fails to be sent is told by the receive.
	_ = l.stream.SendMsg(wrapperspb.String(statusPath))
	if err = l.stream.RecvMsg(&wrapperspb.BytesValue{}); err != nil {
		l.stream = nil
	}
	return err
}
