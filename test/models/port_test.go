package models

import "testing"

// Port channels (kernels/include/goccl/port_channel.cuh, PortOrder): threads ask a proxy, by a FIFO, for puts, signals
// and flushes over a connection. A thread that finds all requests flushed stores a small put itself, and adds the
// signal itself. Its stores arrive when something that it does later releases them. Between two calls a thread may
// learn what another one has done. It may read an old value of asked unless it has learnt of a newer one. Property: a
// put, a signal or a flush comes after all puts that happen before its call, and all signals are counted once.

const (
	portThreads = 2
	portCalls   = 4 // of all threads

	// The calls.
	portSmall  = 1
	portLarge  = 2
	portSignal = 3
	portFlush  = 4
)

type portThread struct {
	call  uint8 // 0: none
	at    uint8 // the next step of it
	put   uint8 // its put, a bit
	value uint8 // of asked, as it was read; then the position of the request
	known uint8 // puts that happen before what the thread does next
	saw   uint8 // the least value of asked that it may read
}

// portRequest is in the FIFO, with what its thread knew.
type portRequest struct{ call, put, known uint8 }

type portState struct {
	thread         [portThreads]portThread
	calls, puts    uint8
	fifo           [portCalls]portRequest
	head, over     uint8 // positions that were taken, and that the connection has done with
	flushDone      uint8
	asked, flushed uint8
	flusher        portThread // what the thread knew that stored flushed
	stored         uint8      // puts that threads have stored
	arrived        uint8      // puts whose data are at the peer
	signals        uint8
	words          [2]uint8 // of the peer's counter: threads add to one, the connection stores its total in the other
	total          uint8
	wrong          string
}

type portFaults struct {
	unasked    bool // a push does not raise asked
	unreleased bool // a push does not release the thread's stores
	relaxed    bool // a signal does not
	early      bool // a flush does not wait
	tooMuch    bool // a flush sets flushed to all that was asked for
	oneWord    bool // the connection stores its total where threads add
}

func ports(f portFaults) *system[portState] {
	// Each call goes through some of these steps.
	const (
		readFlushed = iota // behind asked
		take
		publish
		raise
		await
	)
	check := func(s *portState, known, there uint8, wrong string) {
		if known&^there != 0 {
			s.wrong = wrong
		}
	}
	act := func(s *portState, i int) bool {
		t := &s.thread[i]
		t.at++
		end := func() { *t = portThread{known: t.known | t.put, saw: t.saw} }
		release := func() { s.arrived |= s.stored & t.known }
		switch t.at - 1 {
		case readFlushed:
			t.known, t.saw = t.known|s.flusher.known, max(t.saw, s.flusher.saw)
			if t.value > s.flushed {
				break
			}
			check(s, t.known, s.arrived|s.stored, "a thread overtakes a request")
			switch t.call {
			case portSmall:
				s.stored |= t.put
			case portSignal:
				if !f.relaxed {
					release()
				}
				s.words[0]++
				s.signals++
				check(s, t.known, s.arrived, "a signal overtakes a put")
			}
			end()
		case take:
			t.value = s.head
			s.head++
		case publish:
			if !f.unreleased {
				release()
			}
			if s.fifo[t.value] = (portRequest{t.call, t.put, t.known}); t.call == portFlush {
				t.at = await
			}
		case raise:
			if !f.unasked {
				s.asked = max(s.asked, t.value+1)
				t.saw = s.asked
			}
			end()
		case await:
			if s.flushDone <= t.value && !f.early {
				return false
			}
			check(s, t.known, s.arrived|s.stored, "a flush ends early")
			if s.flushed = t.value + 1; f.tooMuch {
				s.flushed = max(s.flushed, s.asked)
			}
			end()
			s.flusher = *t
		}
		return true
	}
	return &system[portState]{
		next: func(s portState, add adder[portState]) {
			for i, t := range s.thread {
				if t.call != 0 {
					if to := s; act(&to, i) {
						add(to, "thread %d does step %d of call %d", i, t.at, t.call)
					}
					continue
				}
				for other, o := range s.thread {
					if o.call == 0 && (o.known&^t.known != 0 || o.saw > t.saw) {
						to := s
						to.thread[i].known, to.thread[i].saw = t.known|o.known, max(t.saw, o.saw)
						add(to, "thread %d learns from thread %d", i, other)
					}
				}
				if s.calls == portCalls || s.calls == 0 && i > 0 { // threads are interchangeable
					continue
				}
				for call := uint8(portSmall); call <= portFlush; call++ {
					to := s
					now := &to.thread[i]
					now.call = call
					if to.calls++; call <= portLarge {
						now.put = 1 << s.puts
						to.puts++
					}
					if call == portLarge {
						now.at = take
						act(&to, i)
						add(to, "thread %d begins a large put", i)
						continue
					}
					for _, v := range []uint8{t.saw, s.asked} {
						now.value, now.saw = v, v
						add(to, "thread %d begins call %d and reads that requests below %d were asked for", i, call, v)
					}
				}
			}
			if s.over < s.head && s.fifo[s.over].call != 0 {
				to, r := s, s.fifo[s.over]
				to.fifo[s.over] = portRequest{}
				switch to.over++; r.call {
				case portFlush:
					to.flushDone = to.over
				case portSignal:
					check(&to, r.known, s.arrived, "a signal overtakes a put")
					to.signals++
					to.total++
					if to.words[1] = to.total; f.oneWord {
						to.words = [2]uint8{to.total, 0}
					}
				default:
					check(&to, r.known, s.arrived, "a put overtakes a put")
					to.arrived |= r.put
				}
				add(to, "the connection does request %d", s.over)
			}
		},
		safe: func(s portState) string {
			if s.words[0]+s.words[1] != s.signals {
				return "a signal is lost"
			}
			return s.wrong
		},
		done: func(s portState) bool {
			return s.calls == portCalls && s.thread[0].call|s.thread[1].call == 0 && s.over == s.head
		}}
}

func TestPorts(t *testing.T) {
	holds(t, ports(portFaults{}), map[string]*system[portState]{
		"pushes unseen: a thread overtakes":             ports(portFaults{unasked: true}),
		"pushes without a release: overtakes a put":     ports(portFaults{unreleased: true}),
		"signals without a release: a signal overtakes": ports(portFaults{relaxed: true}),
		"flushes without a wait: a flush ends early":    ports(portFaults{early: true}),
		"later requests as flushed: a thread overtakes": ports(portFaults{tooMuch: true}),
		"a total over what was added: a signal is lost": ports(portFaults{oneWord: true}),
	})
}
