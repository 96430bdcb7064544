package links

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/tcp"
)

// The adapter that leads to this host itself carries data, over real sockets.
func TestMeasureNICs(t *testing.T) {
	found := MeasureNICs(t.Context(), []transport.Net{tcp.NewNet(tcp.NetOptions{Interface: "lo"})}, time.Minute)
	if len(found) != 1 || found[0].Error != "" || found[0].Net != "tcp" || found[0].Name != "lo" ||
		found[0].Micros <= 0 || found[0].GBps <= 0 {
		t.Fatalf("%+v", found)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	found = MeasureNICs(late, []transport.Net{tcp.NewNet(tcp.NetOptions{Interface: "lo"})}, time.Minute)
	if len(found) != 1 || found[0].Error == "" {
		t.Errorf("%+v", found)
	}
	found = MeasureNICs(t.Context(), []transport.Net{tcp.NewNet(tcp.NetOptions{Interface: "nosuch"})}, time.Minute)
	if len(found) != 1 || !strings.Contains(found[0].Error, "nosuch") {
		t.Errorf("%+v", found)
	}
}
