package bootstrap

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestJunkInTheEnvironment: an invalid variable is an error on every join and every new id, even if the variable is not
// needed.
func TestJunkInTheEnvironment(t *testing.T) {
	for _, name := range []string{"GOCCL_TIMEOUT", "GOCCL_SOCKET_FAMILY", "NCCL_SOCKET_FAMILY"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "junk")
			_, ofID := NewUniqueID(WithInterface("lo"))
			_, ofWorldOfOne := Join(context.Background(), Env{Rank: 0, WorldSize: 1})
			for _, err := range []error{errOf(JoinAddress(context.Background(), "127.0.0.1:1", 0, 2)), ofID, ofWorldOfOne} {
				if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), name) {
					t.Error(err)
				}
			}
		})
	}
	for _, name := range []string{"TORCHELASTIC_RESTART_COUNT", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"} {
		t.Setenv(name, "2")
	}
	t.Setenv("TORCHELASTIC_RESTART_COUNT", "junk")
	if err := errOf(JoinAddress(context.Background(), "127.0.0.1:1", 0, 2)); !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), "TORCHELASTIC_RESTART_COUNT") {
		t.Error(err)
	}
}
