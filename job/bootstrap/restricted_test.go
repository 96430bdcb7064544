package bootstrap

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNoLivenessPage joins where the kernel denies system calls that a liveness page needs: peers then detect a death
// by the sockets.
func TestNoLivenessPage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		errno unix.Errno
	}{
		{"memfd_create", unix.ENOSYS}, {"memfd_create", unix.EPERM}, {"ftruncate", unix.EPERM},
		{"get_robust_list", unix.ENOSYS},
		{"set_robust_list", unix.ENOSYS}, {"seals", unix.EINVAL}, {"seals", unix.EPERM},
	} {
		t.Run(fmt.Sprintf("%s %v", c.name, c.errno), func(t *testing.T) {
			t.Parallel()
			vars := []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + portString(t)}
			ranks := []*child{
				startRank(t, "watch", 0, 2, "", vars...),
				startRank(t, "watch", 1, 2, "", append(vars, fmt.Sprintf("%s=%s=%d", forbidVariable, c.name, int(c.errno)))...),
			}
			for _, r := range ranks {
				r.expect(t, "joined [0 0]", 30*time.Second)
			}
			ranks[1].kill()
			ranks[0].expect(t, "failed peer=1 dead=true", 30*time.Second)
		})
	}
}

// TestFewOpenFiles joins with every limit of open files, starting with the number that Go itself needs. A rank joins,
// or fails with the reason; it never panics or hangs.
func TestFewOpenFiles(t *testing.T) {
	t.Parallel()
	named, joined := 0, 0
	for limit := 7; limit <= 20; limit++ {
		vars := []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + portString(t), "GOCCL_TIMEOUT=20"}
		ranks := []*child{
			startRank(t, "barrier", 0, 2, "", vars...),
			startRank(t, "barrier", 1, 2, "", append(vars, fmt.Sprintf("%s=%d", limitVariable, limit))...),
		}
		line, ok := ranks[1].last(t)
		switch {
		case strings.HasPrefix(line, "done"):
			joined++
		case strings.Contains(line, "too many open files") &&
			strings.Contains(line, fmt.Sprintf("may have %d open files", limit)):
			named++
		default:
			t.Errorf("limit %d: %q, %v", limit, line, ok)
		}
		for _, r := range ranks {
			r.end()
		}
	}
	if named == 0 || joined == 0 {
		t.Errorf("%d limits were named, with %d the ranks joined", named, joined)
	}
}
