package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// surroundings are jobs whose file systems are bad, and ranks without resources.
func surroundings() (out []*fault) {
	for _, s := range []struct{ name, help, script string }{
		{"tmp-readonly", "/tmp is read-only", "mount -t tmpfs -o ro none /tmp"},
		{"tmp-full", "/tmp is full", "mount -t tmpfs -o size=4k none /tmp && ! cat /dev/zero >/tmp/full 2>/dev/null"},
		{"tmp-absent", "there is no /tmp", "mount -t tmpfs none /mnt && for d in /*; do case $d in /tmp|/mnt) ;; " +
			"*) if [ -d $d ]; then mkdir /mnt$d && mount --rbind $d /mnt$d; fi;; esac; done; " +
			"for d in bin sbin lib lib64; do [ -e /mnt/$d ] || ln -s usr/$d /mnt/$d; done; exec chroot /mnt \"$@\""},
		{"shm-readonly", "/dev/shm is read-only", "mount -t tmpfs -o ro none /dev/shm"},
		{"shm-full", "/dev/shm is full", "mount -t tmpfs -o size=4k none /dev/shm && " +
			"! cat /dev/zero >/dev/shm/full 2>/dev/null"},
		{"shm-absent", "there is no /dev/shm", "mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && " +
			"mknod -m 666 /dev/urandom c 1 9"},
		{"proc-absent", "there is no /proc", "umount -l /proc"},
	} {
		out = append(out, &fault{Name: s.name, Number: 14, Help: s.help, expect: nothing, phases: []string{"set-up", "small",
			"large", "split", "grow", "plan", "proxy"},
			prefix: []string{"unshare", "--mount", "sh", "-c", s.script + "; exec \"$@\"", "sh"}})
	}
	return append(out,
		&fault{Name: "emfile", Number: 13, Help: "one rank may open at most a few more descriptors (EMFILE)", expect: typed,
			victims: oneOf, strike: (*rank).noDescriptors},
		&fault{Name: "no-memory", Number: 13, Help: "one rank gets no more memory (ENOMEM)", expect: typed, victims: oneOf,
			strike: (*rank).noMemory})
}

// possible tells why a fault cannot be injected here, if it cannot: program must be visible in the surroundings.
func (f *fault) possible(program string) error {
	if f.tool != "" {
		if _, err := exec.LookPath(f.tool); err != nil {
			return err
		}
	}
	if len(f.prefix) == 0 {
		return nil
	}
	args := append(append([]string{}, f.prefix...), "test", "-x", program)
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("no mount namespaces (they need root), or %s is hidden in it: %w %s", program, err, out)
	}
	return nil
}

// noDescriptors leaves this process a few descriptors, a number drawn from the seed.
func (r *rank) noDescriptors() {
	r.say("fault", nil)
	open := uint64(0)
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		open = uint64(len(entries))
	}
	l := unix.Rlimit{Cur: open + r.Seed%12, Max: open + r.Seed%12}
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &l)
}

// noMemory leaves this process little address space, as much as its seed says. Go ends a process that gets no memory
// for its own needs.
func (r *rank) noMemory() {
	r.say("fault", nil)
	text, _ := os.ReadFile("/proc/self/statm")
	pages := uint64(0)
	_, _ = fmt.Sscan(string(text), &pages)
	bytes := pages*uint64(os.Getpagesize()) + r.Seed%64<<20
	_ = unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: bytes, Max: bytes})
	time.Sleep(0)
}
