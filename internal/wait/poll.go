package wait

import "time"

// The pauses of Poll: from pollFirst, doubling up to pollLast.
const (
	pollFirst = 20 * time.Microsecond
	pollLast  = time.Millisecond
)

// Poll waits until cond is true, or fails with ErrTimeout or an *AbortError. It is for conditions without a wake-up,
// such as a word that a GPU writes. It polls and yields like Until, but then pauses for increasing times, up to a
// millisecond, instead of sleeping until woken: a long wait costs little, but detects the change late.
func Poll(cond func() bool, l Limit, p *Policy) error {
	if cond() {
		return nil
	}
	if p == nil {
		p = Default()
	}
	if done, err := awake(cond, l, p); done || err != nil {
		return err
	}
	for d := pollFirst; ; d = min(2*d, pollLast) {
		if cond() {
			return nil
		}
		if err := l.Check(); err != nil {
			return err
		}
		time.Sleep(d)
	}
}
