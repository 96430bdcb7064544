package doctor

import (
	"context"
	"strings"
	"testing"
)

// doctor reports in advance what joining would warn of or refuse.
func TestJoiningByAddress(t *testing.T) {
	for env, want := range map[string]Status{
		"MASTER_ADDR=10.0.0.1": Warn, "NCCL_COMM_ID=10.0.0.1:5000": Warn,
		"MASTER_ADDR=10.0.0.1 GOCCL_SECRET=0123456789abcdef":                          OK,
		"MASTER_ADDR=127.0.0.1 TORCHELASTIC_RUN_ID=x LOCAL_WORLD_SIZE=2 WORLD_SIZE=2": OK,
		"MASTER_ADDR=127.0.0.1 TORCHELASTIC_RUN_ID=x LOCAL_WORLD_SIZE=2 WORLD_SIZE=4": Warn,
		"GOCCL_SOCKET_FAMILY=ipv4": Fail, "NCCL_SOCKET_FAMILY=AF_INET6": OK,
	} {
		name, _, _ := strings.Cut(env, "=")
		found := false
		for _, f := range source(t, "laptop", strings.Fields(env)...).Check(context.Background()) {
			if f.Name == name {
				found = true
				if f.Status != want || want == Warn && !strings.Contains(f.Fix, "GOCCL_SECRET") {
					t.Errorf("%s: %+v", env, f)
				}
			}
		}
		if !found {
			t.Errorf("%s: nothing is said of %s", env, name)
		}
	}
}
