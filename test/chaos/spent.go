package chaos

import (
	"slices"
	"time"

	"github.com/goccl/goccl/test/ranks"
)

// stretches divide a trial: each lasts until the last rank has reported one of its events.
var stretches = []struct {
	name   string
	events []string
}{
	{"start", []string{"opened"}},          // processes, and their devices
	{"join", []string{"begun"}},            // a communicator, and its first operation
	{"fault", []string{"fault"}},           // until it strikes
	{"verdict", []string{"error", "fine"}}, // until every rank has its error or result
	{"shrink", []string{"over"}},           // the survivors go on
	{"close", []string{"done"}},            // Finalize, Close, and a look at what a rank still holds
}

// spend tells where a trial's time went. "end" is the time after the last report: processes end, and leaked resources
// are looked for.
func spend(began time.Time, said []ranks.Report, now time.Time) map[string]time.Duration {
	spent := map[string]time.Duration{}
	at := began.UnixNano()
	for _, s := range stretches {
		last := at
		for _, r := range said {
			if slices.Contains(s.events, r.Event) && r.At < now.UnixNano() { // else its clock has jumped
				last = max(last, r.At)
			}
		}
		if last > at {
			spent[s.name] = time.Duration(last - at)
		}
		at = last
	}
	spent["end"] = max(0, time.Duration(now.UnixNano()-at))
	return spent
}
