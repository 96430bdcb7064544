package ranks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/fdshare"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/primitive"
	"github.com/goccl/goccl/test/leak"
)

// Report is one line of a rank's output.
type Report struct {
	Rank  int
	Event string // running, error, shrunk, left, done, failed
	At    int64  // Unix time in ns
	Op    string
	Peer  int
	Seq   uint64
	Kind  string
	Text  string
	// Verdict is the kind of the error's verdict, "" if there is none, and Blames its rank.
	Verdict string
	Blames  int
}

// kinds are the errors that a report tells apart.
var kinds = []error{goccl.ErrNoQuorum, goccl.ErrPeerDead, goccl.ErrTimeout, goccl.ErrMismatch, goccl.ErrAborted}

// NewReport describes an event, and err if it is not nil.
func NewReport(rank int, event string, err error) Report {
	r := Report{Rank: rank, Event: event, At: time.Now().UnixNano(), Peer: -1, Blames: -1}
	if err == nil {
		return r
	}
	r.Text = err.Error()
	pe := fault.PartOf(err, primitive.Part)
	switch ge := fault.Of(err); {
	case ge != nil:
		r.Op, r.Peer, r.Seq = ge.Op, ge.Peer, ge.Seq
		if v := ge.Verdict; v != nil {
			r.Verdict, r.Blames = string(v.Kind), v.Rank
		}
	case pe != nil:
		r.Op, r.Peer = pe.Op, pe.Peer
	default:
		r.Peer = fault.PeerOf(err)
	}
	for _, k := range kinds {
		if errors.Is(err, k) {
			r.Kind = k.Error()
			break
		}
	}
	return r
}

// Print writes the report for the process that started this rank.
func (r Report) Print() {
	b, _ := json.Marshal(r)
	fmt.Println(string(b))
}

// Base counts the resources of this process before it uses goccl, after process-wide parts have been created.
func Base() leak.Resources {
	_, _ = fdshare.Shared()
	address := fmt.Sprintf("unix:@goccl-warm-%d", os.Getpid())
	if b, err := bootstrap.JoinAddress(context.Background(), address, 0, 1); err == nil {
		_ = b.Close()
	}
	time.Sleep(50 * time.Millisecond)
	return leak.Held()
}
