package bootstrap

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccl/goccl/internal/plain"
)

// rewriteVariable makes the transcripts in testdata say what the code does now. Read the difference before it is kept.
const rewriteVariable = "GOCCL_REWRITE_TRANSCRIPTS"

// A transcript is a list of events and of what a state machine answers: lines of events, a line "----", the answer, and
// an empty line. Other lines that begin with # are comments.
func playTranscripts(t *testing.T, pattern string, start func() func(words []string) string) {
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			play := start()
			var now []string
			for block := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n\n") {
				events, _, _ := strings.Cut(block, "----")
				answer := ""
				for line := range strings.Lines(events) {
					if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
						answer += play(words)
					}
				}
				if strings.Contains(block, "----") {
					events += "----\n" + answer
				} else if answer != "" {
					events += "\n----\n" + answer
				}
				now = append(now, strings.TrimSpace(events))
			}
			text := strings.Join(now, "\n\n") + "\n"
			if os.Getenv(rewriteVariable) != "" {
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want := strings.Split(string(raw), "\n")
			for i, line := range strings.Split(text, "\n") {
				if i >= len(want) || line != want[i] {
					t.Fatalf("%s:%d: it says\n%s\n(%s=1 rewrites the file)", file, i+1, line, rewriteVariable)
				}
			}
			if text != string(raw) {
				t.Errorf("%s has other lines at its end", file)
			}
		})
	}
}

func num(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// TestMembershipTranscripts: see the commands below. Times are in milliseconds.
func TestMembershipTranscripts(t *testing.T) {
	kinds := []string{"", "death", "goodbye", "leave", "waiting"}
	playTranscripts(t, "membership*.txt", func() func([]string) string {
		var m *membership
		now := int64(0)
		left := map[spacePeer]bool{}
		show := func() (out string) {
			for _, x := range m.take() {
				r := x.report
				about := map[reportKind]string{reportDeath: fmt.Sprint(" of ", r.peer), reportLeave: fmt.Sprint(" group ", r.space),
					reportWaiting: fmt.Sprint(" group ", r.space, " collective ", r.tag)}[r.kind]
				switch x.kind {
				case effectSend:
					var to []int
					for p, s := range m.peers {
						if p != m.rank && p != x.peer && s.links > 0 && m.wants(p, r) {
							to = append(to, p)
						}
					}
					out += fmt.Sprintf("send %s%s by %d to %v\n", kinds[r.kind], about, r.from, to)
				case effectDead:
					out += fmt.Sprintf("dead %d: %v\n", x.peer, x.err)
				case effectDeparted:
					out += fmt.Sprintf("departed %d: %v\n", x.peer, x.err)
				case effectLeft:
					left[spacePeer{r.space, x.peer}] = true
					out += fmt.Sprintf("left %d%s\n", x.peer, about)
				case effectWaiting:
					out += fmt.Sprintf("waits %d%s\n", x.peer, about)
				case effectCut:
					out += fmt.Sprintf("cut %d: %v\n", x.peer, x.err)
				}
			}
			if at := m.next(); at > 0 {
				out += fmt.Sprintf("decides at %d ms\n", at/1e6)
			}
			return out
		}
		return func(w []string) string {
			switch w[0] {
			case "job": // job RANK of SIZE complete|sparse: connected with all neighbours
				now, left = 0, map[spacePeer]bool{}
				m = newMembership(num(w[1]), num(w[3]), w[4] == "complete",
					func(space uint64, peer int) bool { return left[spacePeer{space, peer}] })
				m.groups[0] = map[int]int{}
				for r := range m.size {
					m.groups[0][r] = r
				}
				for p := range neighbours(m.rank, m.size, m.complete) {
					m.peers[p] = memberState{inbound: 1, links: 1, pinned: 1}
				}
			case "group": // group SPACE RANK...
				members := map[int]int{}
				for i, r := range w[2:] {
					members[num(r)] = i
				}
				m.groups[uint64(num(w[1]))] = members
			case "time":
				now = int64(num(w[1])) * 1e6
				m.tick(now)
			case "connected": // connected PEER: it has dialed for its data
				m.peers[num(w[1])].links++
				m.inboundChanged(now, num(w[1]), 1)
			case "ended": // ended PEER: a connection with its data has ended
				p := &m.peers[num(w[1])]
				p.links, p.pinned = p.links-1, 0
				m.inboundChanged(now, num(w[1]), -1)
			case "lost":
				m.lose(now, num(w[1]), errors.New(strings.Join(w[2:], " ")), true)
			case "sent":
				m.sent(now, num(w[1]))
			case "say": // say KIND [GROUP]: this rank itself
				r := report{kind: reportKind(slices.Index(kinds, w[1]))}
				if len(w) > 2 {
					r.space = uint64(num(w[2]))
				}
				m.originate(r)
			case "hear": // hear KIND by AUTHOR over VIA [inbound] [of PEER | group SPACE [collective N]]
				r := report{kind: reportKind(slices.Index(kinds, w[1])), from: uint32(num(w[3]))}
				for i := 6; i+1 < len(w); i++ {
					switch w[i] {
					case "of":
						r.peer = uint32(num(w[i+1]))
					case "group":
						r.space = uint64(num(w[i+1]))
					case "collective":
						r.tag = uint64(num(w[i+1]))
					}
				}
				m.receive(now, num(w[5]), slices.Contains(w, "inbound"), r)
			case "close":
				m.end(ErrClosed, w[len(w)-1] == "all")
			default:
				t.Fatalf("event %q", w)
			}
			return show()
		}
	})
}

// TestGatherTranscripts plays the ranks of a collective. Each gives its number in brackets.
func TestGatherTranscripts(t *testing.T) {
	playTranscripts(t, "gather*.txt", func() func([]string) string {
		var ranks []*gather
		net := map[[2]int][][]byte{} // from, to
		texts := func(x *gather) (out []string) {
			for _, p := range x.out {
				if p == nil {
					p = []byte(".")
				}
				out = append(out, string(p))
			}
			return out
		}
		return func(w []string) (out string) {
			switch w[0] {
			case "ranks": // ranks N direct|relays
				for r := range num(w[1]) {
					ranks = append(ranks, newGather(r, num(w[1]), opAllGather, w[2] == "direct", fmt.Appendf(nil, "%d", r)))
				}
				return fmt.Sprintf("steps %v\n", ranks[0].steps())
			case "send": // send RANK STEP
				x := ranks[num(w[1])]
				for _, d := range x.steps()[num(w[2])] {
					messages := x.bundle(d)
					out += fmt.Sprintf("to %d: %q\n", x.at(d), messages)
					net[[2]int{x.rank, x.at(d)}] = append(net[[2]int{x.rank, x.at(d)}], messages...)
				}
			case "fail": // fail RANK from STEP blames CULPRIT
				x := ranks[num(w[1])]
				for _, ds := range x.steps()[num(w[3]):] {
					for _, d := range ds {
						m := append([]byte{byte(x.op), flagFails}, EncodeFailure(num(w[5]), ErrPeerDead)...)
						out += fmt.Sprintf("to %d: %q\n", x.at(d), m)
						net[[2]int{x.rank, x.at(d)}] = append(net[[2]int{x.rank, x.at(d)}], m)
					}
				}
			case "forge": // forge FROM TO MESSAGE
				m, err := strconv.Unquote(w[3])
				if err != nil {
					t.Fatal(err)
				}
				net[[2]int{num(w[1]), num(w[2])}] = [][]byte{[]byte(m)}
			case "receive": // receive RANK STEP
				x := ranks[num(w[1])]
				for _, d := range x.steps()[num(w[2])] {
					for more, k := true, [2]int{x.at(-d), x.rank}; more && len(net[k]) > 0; net[k] = net[k][1:] {
						var culprit int
						var err error
						if more, culprit, err = x.receive(d, net[k][0]); err != nil {
							out += fmt.Sprintf("rank %d is to blame: %v\n", culprit, err)
						}
					}
				}
				out += fmt.Sprintf("has %s\n", strings.Join(texts(x), " "))
			default:
				t.Fatalf("event %q", w)
			}
			return out
		}
	})
}

// TestAssemblyTranscripts: see the commands below. A frame of rank RANK comes over its own connection, or "over
// PARENT".
func TestAssemblyTranscripts(t *testing.T) {
	playTranscripts(t, "assembly*.txt", func() func([]string) string {
		var a *assembly
		option := func(w []string, name string, none int) int {
			if i := slices.Index(w, name); i > 0 {
				return num(w[i+1])
			}
			return none
		}
		return func(w []string) (out string) {
			if w[0] == "root" {
				a = newAssembly(&config{sparseFrom: option(w, "sparse-from", 0)}, attempt{})
				a.places = option(w, "places", treeWidth)
				a.free[0].places = a.places
				a.process = [16]byte{byte(option(w, "own-process", 99))}
				return ""
			}
			rank, h, data := 0, header{}, []byte(nil)
			if len(w) > 1 {
				rank = num(w[1])
			}
			switch w[0] {
			case "status":
				a.status()
			case "admit":
				g := greeting{rank: int32(rank), world: uint32(num(w[3])), from: origin{byte(rank + 1)}}
				if v := a.admit(g); v != verdictOK {
					out += fmt.Sprintf("refused: %v\n", v.err())
				}
			case "abandon":
				a.abandon(rank)
			case "enter":
				if !a.enter(rank) {
					out += "not wanted\n"
				}
			case "join":
				m := member{process: [16]byte{byte(num(w[3]))}}
				h.kind, data = frameJoin, plain.Bytes(&m)
			case "attached":
				h.kind = frameAttached
			case "ready":
				h.kind, data = frameReady, bytes.Repeat([]byte(w[3]), 32)
			case "lost":
				if !slices.Contains(w, "over") {
					a.lost(rank, strings.Join(w[2:], " "))
				}
				h.kind, data = frameLost, []byte(strings.Join(w[4:], " "))
			case "timeout":
				h.kind, h.tag, data = frameGiveUp, giveUpTimeout, []byte("timed out")
			default:
				t.Fatalf("event %q", w)
			}
			over := option(w, "over", rank)
			if over != rank {
				h.space = uint64(rank) + 1
			}
			if h.kind != 0 && a.phase != phaseOver {
				if err := a.receive(over, h, data); err != nil {
					out += fmt.Sprintf("the connection of %d ends: %v\n", over, err)
				}
			}
			for _, s := range a.take() {
				out += fmt.Sprintf("to %d: %s\n", s.to, frameText(t, a.world, s.kind, s.data))
			}
			if p := a.problem; p.text != "" && a.phase == phaseOver {
				out += fmt.Sprintf("failed, blames %d: %s\n", p.peer, p.text)
			}
			return out
		}
	})
}

// frameText describes a frame of the root.
func frameText(t *testing.T, world int, kind frameKind, data []byte) string {
	switch kind {
	case frameParent:
		p, err := decodeParent(data, world)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("your parent is %d", p.rank)
	case frameTable:
		return "table"
	case frameGo:
		hosts, err := decodeHosts(data, world)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("go, hosts %v", hosts)
	case frameStatus:
		s, err := decodeStatus(data)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("missing %v", s)
	case frameFail:
		f, err := decodeFailure(data)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("failure, blames %d", f.peer)
	}
	return fmt.Sprintf("frame %d", kind)
}

// TestNeighbours: the neighbours of a rank are the ranks that have it as a neighbour, each once, and one of two dials.
func TestNeighbours(t *testing.T) {
	for n := 1; n < 70; n++ {
		for _, complete := range []bool{true, false} {
			sets := make([][]int, n)
			for r := range n {
				sets[r] = slices.Collect(neighbours(r, n, complete))
				want := map[int]bool{}
				for d := 1; d < n; d = nextDistance(d, complete) {
					want[(r+d)%n], want[(r-d+n)%n] = true, true
				}
				if len(sets[r]) != len(want) || slices.ContainsFunc(sets[r], func(p int) bool { return !want[p] }) {
					t.Fatalf("neighbours of %d of %d: %v, want %v", r, n, sets[r], want)
				}
			}
			for r, set := range sets {
				for _, p := range set {
					if !slices.Contains(sets[p], r) || dials(r, p, n) == dials(p, r, n) {
						t.Fatalf("ranks %d and %d of %d", r, p, n)
					}
				}
			}
		}
	}
}
