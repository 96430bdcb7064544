package observe

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/goccl/goccl/internal/fault"
)

// Event is a verdict that came or went.
type Event struct {
	Time    time.Time
	Over    bool
	Verdict *fault.Verdict
}

// same tells whether two verdicts say the same of the same ranks.
func same(a, b *fault.Verdict) bool {
	return a.Kind == b.Kind && a.Communicator == b.Communicator && slices.Equal(a.Blamed(), b.Blamed())
}

// Events compares two snapshots; before may be nil.
func Events(before, now *Snapshot) (events []Event) {
	before = cmp.Or(before, &Snapshot{})
	for _, pair := range []struct {
		from, to []*fault.Verdict
		over     bool
	}{{before.Verdicts, now.Verdicts, false}, {now.Verdicts, before.Verdicts, true}} {
		for _, v := range pair.to {
			if !slices.ContainsFunc(pair.from, func(o *fault.Verdict) bool { return same(o, v) }) {
				events = append(events, Event{now.Time, pair.over, v})
			}
		}
	}
	return events
}

// Log writes the changes from one snapshot to the next. Communicators that come and go, and verdicts that no longer
// hold, are INFO. A new verdict is ERROR if operations hang, else WARN.
func Log(ctx context.Context, log *slog.Logger, before, now *Snapshot) {
	known := func(s *Snapshot, c *Communicator) bool {
		return s != nil && slices.ContainsFunc(s.Communicators, func(o *Communicator) bool { return o.ID == c.ID })
	}
	for _, c := range now.Communicators {
		if !known(before, c) {
			log.LogAttrs(ctx, slog.LevelInfo, "communicator seen", slog.String("communicator", c.ID),
				slog.String("name", c.Name), slog.Int("size", c.Size), slog.Int("ranks", len(c.Ranks)))
		}
	}
	if before != nil {
		for _, c := range before.Communicators {
			if !known(now, c) {
				log.LogAttrs(ctx, slog.LevelInfo, "communicator ended", slog.String("communicator", c.ID))
			}
		}
	}
	for _, e := range Events(before, now) {
		v, level, text := e.Verdict, slog.LevelError, "hang"
		switch {
		case e.Over:
			level, text = slog.LevelInfo, "over"
		case !v.Hang():
			level, text = slog.LevelWarn, string(v.Kind)
		}
		log.LogAttrs(ctx, level, text, slog.String("verdict", string(v.Kind)), slog.String("communicator", v.Communicator),
			slog.String("ranks", fmt.Sprint(v.Blamed())), slog.String("host", v.Host), slog.Int("pid", v.Process),
			slog.String("operation", v.Operation), slog.Uint64("number", v.Number), slog.Duration("for", v.For),
			slog.String("what", v.What), slog.String("todo", v.Mend))
	}
}
