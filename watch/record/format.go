package record

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/goccl/goccl/internal/printable"
)

// Formats are the names that Write accepts.
var Formats = []string{"json", "text", "trace", "torch", "torch-json", "stack"}

// Write writes records in a format:
//
//	json        the type Process
//	text        for people
//	trace       Chrome's trace events, which Perfetto reads
//	torch       the pickle of PyTorch's flight recorder, for torchfrtrace; torch-json the same in JSON
//	stack       json, and the stacks of this process's goroutines
func Write(w io.Writer, p *Process, format string) error {
	switch format {
	case "json":
		return writeJSON(w, p)
	case "text":
		return writeText(w, p)
	case "trace":
		return WriteTrace(w, p)
	case "torch":
		return writePickle(w, torchDump(p))
	case "torch-json":
		return writeJSON(w, torchDump(p))
	case "stack":
		return writeJSON(w, struct {
			*Process
			Stacks string `json:"stacks"`
		}{p, string(stacks())})
	}
	return fmt.Errorf("record: unknown format %q: use one of %v", format, Formats)
}

func writeJSON(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }

func writeText(w io.Writer, p *Process) error {
	_, err := fmt.Fprintf(w, "process %d on %s: %s, %s\n", p.PID, p.Host, p.Program,
		printable.Count(len(p.Communicators), "communicator"))
	for _, c := range p.Communicators {
		fmt.Fprintf(w, "\ncommunicator %s %q: rank %d of %d, %s, %s: %s, %s\n", c.ID, c.Name, c.Rank, c.Size,
			c.Device, c.State, printable.Count(int(c.Collectives), "collective"), printable.Count(int(c.Messages), "message"))
		for _, o := range c.Operations {
			_, err = fmt.Fprintln(w, "  "+o.line(p))
		}
		for _, x := range c.Waits {
			fmt.Fprintf(w, "  waits for rank %d: %v\n", x.Peer, &x)
		}
		if c.Verdict != nil {
			_, err = fmt.Fprintln(w, "  verdict: "+c.Verdict.String())
		}
	}
	return err
}

// line describes an operation with its times.
func (o *Operation) line(p *Process) string {
	s := fmt.Sprintf("#%d %s", o.Number, o.Name())
	if o.Algorithm != "" {
		s += " by " + o.Algorithm
	}
	s += fmt.Sprintf(", stream %#x: %s", o.Stream, o.State)
	short := func(d time.Duration) time.Duration { return d.Round(max(time.Microsecond, d/1000)) }
	switch {
	case o.Ended != 0:
		from := max(o.Started, o.Enqueued)
		s += fmt.Sprintf(" %v ago after %v", short(p.Age(o.Ended)), short(time.Duration(o.Ended-from)))
	case o.Started != 0:
		s += fmt.Sprintf(" %v ago, called %v before", short(p.Age(o.Started)), short(time.Duration(o.Started-o.Enqueued)))
	default:
		s += fmt.Sprintf(" %v ago", short(p.Age(o.Enqueued)))
	}
	return s
}
