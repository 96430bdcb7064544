package ras_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/test/commtest"
)

func TestMain(m *testing.M) {
	commtest.Main(m, map[string]func(*commtest.Process) error{"sums": func(k *commtest.Process) error {
		c, _, err := k.Sums(k.Boot, 3)
		if err != nil {
			return err
		}
		if _, err := c.Split(context.Background(), min(k.Rank, 1), k.Rank); err != nil { // 0 alone, the others together
			return err
		}
		k.Say("running", nil)
		time.Sleep(time.Hour) // the end of the test kills the process
		return c.Close()
	}})
}

// at is a free address, which the environment names.
func at(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	t.Setenv("NCCL_RAS_ADDR", l.Addr().String())
	return l.Addr().String()
}

// ask is a client: the answer to its last command ends the connection. The system may give the connection to a process
// that is stopped, as with NCCL, or that is being killed and resets it: then the answer is empty.
func ask(address, commands string) string {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return ""
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(c, commands) // fails where the process that took the connection is killed
	b, _ := io.ReadAll(c)
	return string(b)
}

const status = "CLIENT PROTOCOL 2\nTIMEOUT 5\nSET FORMAT json\nSTATUS\n"

type rank struct {
	Rank   int    `json:"rank"`
	Host   string `json:"host"`
	PID    int    `json:"pid"`
	Status struct {
		Unresponsive bool `json:"unresponsive"`
		Dead         bool `json:"considered_dead"`
	} `json:"status"`
	Counts map[string]uint64 `json:"collective_counts"`
}

type communicator struct {
	Hash    string `json:"hash"`
	Size    int    `json:"size"`
	Ranks   []rank `json:"ranks"`
	Missing []rank `json:"missing_ranks"`
}

// until asks for JSON until a communicator is as wanted.
func until(t *testing.T, address, want string, is func(all []communicator) bool) {
	t.Helper()
	var answer string
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end); {
		answer = ask(address, status)
		text, ok := strings.CutPrefix(answer, "SERVER PROTOCOL 2\nOK\nOK\n")
		var report struct {
			Communicators []communicator `json:"communicators"`
		}
		if ok && json.Unmarshal([]byte(text), &report) == nil && is(report.Communicators) {
			return
		}
	}
	t.Fatalf("never %s; last:\n%s", want, answer)
}

// A job of processes answers at one address, whichever process a client reaches, also when one is stopped, and when it
// is dead.
func TestJobAnswers(t *testing.T) {
	address := at(t)
	j := commtest.Start(t, commtest.Task{Do: "sums", Size: 3})
	j.Await("running", commtest.Everyone(3), time.Minute)
	// The process of rank 0 is no member of the pair, the others are none of the communicator of one.
	until(t, address, "three ranks with three sums, and its parts", func(all []communicator) bool {
		return len(all) == 3 && all[0].Size == 3 && len(all[0].Missing)+len(all[1].Missing)+len(all[2].Missing) == 0 &&
			len(all[0].Ranks) == 3 && len(all[1].Ranks) == 2 && len(all[2].Ranks) == 1 &&
			!slices.ContainsFunc(all[0].Ranks, func(r rank) bool { return r.PID == 0 || r.Counts["AllReduce"] != 3 })
	})
	if text := ask(address, "verbose status\n"); !strings.Contains(text, "RUNNING      OK\n") ||
		!strings.Contains(text, "      1          3            1          3        3\n") {
		t.Error(text)
	}
	j.Signal(1, syscall.SIGSTOP)
	until(t, address, "rank 1 is stopped", func(all []communicator) bool {
		return len(all) > 0 && len(all[0].Missing) == 1 && all[0].Missing[0].Rank == 1 && all[0].Missing[0].PID > 0 &&
			all[0].Missing[0].Status.Unresponsive && !all[0].Missing[0].Status.Dead
	})
	j.Signal(1, syscall.SIGKILL)
	until(t, address, "rank 1 is dead", func(all []communicator) bool {
		return len(all) > 0 && len(all[0].Missing) == 1 && all[0].Missing[0].Rank == 1 && all[0].Missing[0].Status.Dead
	})
}

// Ranks of other hosts are there. With the last communicator the address is free.
func TestHostsAndGroups(t *testing.T) {
	address := at(t)
	comms := commtest.NewOn(t, []int{0, 0, 1, 1}, commtest.Host, nil)
	pairs := commtest.Split(t, comms, func(r int) int { return r / 2 }, func(r int) int { return r })
	until(t, address, "a communicator of four and two of two", func(all []communicator) bool {
		var sizes []int
		for _, c := range all {
			if len(c.Ranks) == c.Size && len(c.Missing) == 0 {
				sizes = append(sizes, c.Size)
			}
		}
		return fmt.Sprint(sizes) == "[4 2 2]"
	})
	if err := commtest.Each(len(comms), func(r int) error {
		for _, c := range []*goccl.Comm{pairs[r], comms[r]} {
			if err := c.Close(); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", address); err == nil {
		_ = c.Close()
		t.Error("it still listens")
	}
}

// Only who asks for it gets it.
func TestOffUnlessAsked(t *testing.T) {
	address := at(t)
	t.Setenv("NCCL_RAS_ENABLE", "0")
	commtest.New(t, 2, commtest.Host, nil)
	if c, err := net.Dial("tcp", address); err == nil {
		_ = c.Close()
		t.Error("it listens although NCCL_RAS_ENABLE is 0")
	}
}
