package chaos

// Class is one of the 25 kinds of faults of the scoreboard.
type Class struct {
	Number    int
	Name      string
	Elsewhere string // the test that injects it where no trial does, or beside the trials
}

// Classes lists them.
func Classes() []Class {
	return []Class{
		{1, "one rank dies: SIGKILL, SIGABRT, panic", ""},
		{2, "two ranks die, or rank 0, or all except one", ""},
		{3, "a rank is stopped for a while", ""},
		{4, "a rank is stopped for good", ""},
		{5, "a rank leaves out a call", ""},
		{6, "a rank calls with other arguments", "with checking: `TestMismatch`, `TestMismatchedMessages`"},
		{7, "ranks call in different orders on two streams or communicators", "`engine/nvlink`: `TestOrder…`"},
		{8, "a process exits while its peers use its memory", ""},
		{9, "the network loses, delays, resets, or is cut", ""},
		{10, "damaged, truncated, repeated frames; random bytes", "fuzz targets below; `bootstrap/hostile_test.go`"},
		{11, "a slow client, many idle connections", "`bootstrap/flood_test.go`"},
		{12, "a wrong secret, a replay, a wrong rank or size, another release", "`bootstrap/attack_test.go`"},
		{13, "no descriptors, no memory", ""},
		{14, "/dev/shm, /tmp or /proc full, read-only or absent", ""},
		{15, "what crashed jobs left behind", ""},
		{16, "fork after the first call", "calls in the child: `capi/fork_test.go`"},
		{17, "device memory runs out; invalid pointers", "`test/contract/bounds_test.go`"},
		{18, "malformed plans", "`FuzzDecode`, `FuzzVerify` of `plan`"},
		{19, "plans that deadlock or race", "`plan`: the verifier's tests"},
		{20, "flipped bits in payload or flags", "`TestFlippedBits`, with `GOCCL_CHECK=2`"},
		{21, "ranks that come late", ""},
		{22, "millions of graph replays, wrapped epochs", "`gpu.sh`, on GPUs"},
		{23, "days of communicators and deaths", "`make soak`, for minutes"},
		{24, "abort, revoke, shrink at once", "`TestModel`"},
		{25, "a paused machine, a jump of the clock", "`test/archtest`: no deadline is on the wall clock"},
	}
}

// NumberOf returns the class of a fault, and what the fault is; 0 if there is no such fault.
func NumberOf(name string) (number int, help string) {
	if f := lookUp(faults(), name); f != nil {
		return f.Number, f.Help
	}
	return 0, ""
}

// PhaseNames lists the phases in order.
func PhaseNames() (names []string) {
	for _, p := range phases() {
		names = append(names, p.Name)
	}
	return names
}

// FaultNames lists the faults in order.
func FaultNames() (names []string) {
	for _, f := range faults() {
		names = append(names, f.Name)
	}
	return names
}

// Happens reports whether a fault can be tried in a phase.
func Happens(name, phase string, gpus bool) bool {
	f, p := lookUp(faults(), name), lookUp(phases(), phase)
	return f != nil && p != nil && f.runs(p) && !(gpus && p.Name == "proxy")
}

// IsDeath reports whether processes die by a fault.
func IsDeath(name string) bool {
	f := lookUp(faults(), name)
	return f != nil && f.expect == death
}
