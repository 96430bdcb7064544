package nvlink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/share"
)

// selectLink makes the arenas on the best link kind that works for all pairs, and enters it into the terms. All ranks
// choose the same one.
//
//  1. Take the worst of the links that GPUs and environment allow.
//  2. Make the arenas.
//  3. Probe that data arrives in them, unless every rank knows it from an earlier communicator.
//  4. If ranks cannot map each other's memory, or data does not arrive, start again with the next worse kind.
func selectLink(ctx context.Context, b bootstrap.Bootstrap, dev *cuda.Device, t *terms) (*share.Arena, error) {
	l := &t.links
	for {
		worst := l.worst()
		t.gpu.Link = worst.Kind
		arena, err := l.try(ctx, b, dev, worst, t.stage(), t.later())
		if err != nil {
			return nil, err
		}
		if arena != nil {
			if b.Rank() == 0 {
				l.announce(worst)
			}
			return arena, nil
		}
	}
}

// try makes and probes arenas. The arena is nil if a worse link kind is to be tried.
func (l *linkSelection) try(ctx context.Context, b bootstrap.Bootstrap, dev *cuda.Device, worst Pair, stage int64,
	later bool) (*share.Arena, error) {
	n, rank, m := len(l.all), b.Rank(), worst.Kind.medium()
	at, newArena := layout{n, worst.Kind == NVLink, stage, later}, share.NewArena
	switch worst.Kind {
	case Network:
		return nil, fmt.Errorf("%w: %s: %s", ErrNetwork, l.names(worst.A, worst.B), worst.Reason)
	case HostMemory:
		newArena = func(ctx context.Context, b bootstrap.Bootstrap, _ device.Device, size int64) (*share.Arena, error) {
			return share.NewHostArena(ctx, b, dev, size, dev.Node())
		}
	}
	arena, err := newArena(ctx, b, dev, at.arenaBytes())
	if err != nil {
		if !errors.Is(err, share.ErrNotMapped) || l.forced() {
			return nil, err
		}
		l.lose(m, err)
		return nil, nil
	}
	if n == 1 || l.proven(m) {
		return arena, nil
	}
	results, err := probe(ctx, b, dev, arena, at)
	if errors.Is(err, errHangs) {
		return nil, err // the arena is kept: the GPU may still use it
	}
	if err != nil {
		return nil, errors.Join(err, arena.Close())
	}
	if l.learn(rank, m, results) {
		return arena, nil
	}
	if err = arena.Close(); err == nil && l.forced() {
		err = l.refuse(m)
	}
	return nil, err
}

// forced reports whether GOCCL_LINK names the link.
func (l *linkSelection) forced() bool { return l.all[0].Link != setting.LinkBest }

// lose rules out a medium for all pairs.
func (l *linkSelection) lose(m medium, cause error) {
	for a := range l.paths {
		for b := range l.paths[a] {
			if a != b {
				l.paths[a][b].Verdicts[m] = verdict{Broken: cause.Error()}
			}
		}
	}
}

// refuse is the error of a forced link that a probe has found broken.
func (l *linkSelection) refuse(m medium) error {
	_, name := forced(l.all[0].Link)
	for a := range l.all {
		for b := range l.all {
			if why := l.broken(a, b, m); why != "" {
				return fmt.Errorf("%w: GOCCL_LINK=%s does not work between %s: %s; unset it to use the best link that works",
					collective.ErrUnsupported, name, l.names(a, b), why)
			}
		}
	}
	return nil
}

// announce logs the links in one line, at INFO if a pair has no NVLink. There is then a warning, too, unless GOCCL_LINK
// names a link.
func (l *linkSelection) announce(worst Pair) {
	at := slog.LevelDebug
	if worst.Kind > NVLink {
		at = slog.LevelInfo
	}
	slog.Log(context.Background(), at, "links", "pairs", Describe(l.pairs()))
	if worst.Kind > NVLink && !l.forced() {
		warnOnce("not all GPUs are connected by NVLink: only protocols that the link allows are used", "link",
			worst.Kind.String(), "worst", l.names(worst.A, worst.B), "reason", worst.Reason)
	}
}

// Describe is a text of pairs, grouped by link and reason: "0-1 2-3 NVLink; 0-2 1-2 PCIe (no NVLink …)".
func Describe(pairs []Pair) string {
	type kind struct {
		link   LinkKind
		reason string
	}
	var order []kind
	members := map[kind][]string{}
	for _, p := range pairs {
		k := kind{p.Kind, p.Reason}
		if members[k] == nil {
			order = append(order, k)
		}
		members[k] = append(members[k], fmt.Sprintf("%d-%d", p.A, p.B))
	}
	var parts []string
	for _, k := range order {
		who := strings.Join(members[k], " ")
		if len(order) == 1 && len(pairs) > 1 {
			who = "all"
		}
		text := who + " " + k.link.String()
		if k.reason != "" {
			text += " (" + k.reason + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// Links lists the link of each pair of ranks. The kernels use the worst of them, which is also returned.
func (e *Engine) Links() ([]Pair, LinkKind) { return e.links, e.gpu.Link }
