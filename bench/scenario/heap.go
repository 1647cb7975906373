package scenario

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"

	"xdsrelay/bench/drive"
	"xdsrelay/bench/report"
)

// heap is the target's heap, summed over its nodes. It makes the target collect garbage, so it is not
// read while anything else is measured. It is zero for commands, whose heaps are not known.
func (b *bed) heap(ctx context.Context) (sum report.Heap, err error) {
	if len(b.nodes) == 0 {
		var m drive.Memory
		err = b.server.Call(ctx, drive.OrderMemory, nil, &m)
		return report.Heap(m), err
	}
	for _, n := range b.nodes {
		if n.admin == "" {
			return report.Heap{}, nil
		}
		h, err := heapOf(ctx, n.admin)
		if err != nil {
			return report.Heap{}, fmt.Errorf("heap of %s: %w", n.name, err)
		}
		sum.Live, sum.InUse, sum.Allocated = sum.Live+h.Live, sum.InUse+h.InUse, sum.Allocated+h.Allocated
	}
	return sum, nil
}

// heapOf asks the admin port of a relay.
func heapOf(ctx context.Context, admin string) (h report.Heap, err error) {
	var text string
	for range 2 { // collections: what pools keep survives the first one
		if text, err = get(ctx, "http://"+admin+"/debug/pprof/heap?gc=1&debug=1"); err != nil {
			return h, err
		}
	}
	return parseHeap(text)
}

func get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.200s", url, resp.Status, body)
	}
	return string(body), err
}

// heapLine is a line of the statistics; that of spans and stacks has what is in use first.
var heapLine = regexp.MustCompile(`(?m)^# (HeapAlloc|HeapInuse|Stack|MSpan|MCache|BuckHashSys|GCSys|OtherSys|Mallocs) = ([0-9]+)(?: / [0-9]+)?$`)

// parseHeap reads a heap profile in its text form, which ends with the runtime's memory statistics.
func parseHeap(text string) (h report.Heap, err error) {
	found := 0
	for _, m := range heapLine.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			return h, fmt.Errorf("heap profile: %s: %w", m[1], err)
		}
		found++
		switch m[1] {
		case "HeapAlloc":
			h.Live = n
		case "Mallocs":
			h.Allocated = n
		default:
			h.InUse += n
		}
	}
	if found != 9 {
		return h, fmt.Errorf("heap profile: %d statistics from HeapAlloc to Mallocs, expected 9", found)
	}
	return h, nil
}
