package metrics

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func example() ([]Communicator, Incidents) {
	one := Communicator{ID: "ab", Name: "world", Host: "h", Rank: 1, Size: 4, PID: 7, Up: true, Wait: 1.5, Late: 0.25,
		Memory: map[string]float64{"rss": 4096}, Kinds: []Kind{
			{Collective: "AllReduce", Algorithm: "RING", Protocol: "LL", UpTo: 8192, Operations: 3, Bytes: 12000, Ended: 2,
				Busy: 0.5, Queued: 0.125, BusBytes: 12000},
			{Collective: "AllReduce", Algorithm: "RING", Protocol: "SIMPLE", Operations: 1}}}
	return []Communicator{one, one}, Incidents{Deaths: 2, Aborts: 1, Verdicts: map[string]float64{"dead": 2},
		Retries: map[[2]string]float64{{"mlx5_0:1", "packet_seq_err"}: 9}}
}

// The metrics pass Prometheus' own linter, and have the values that were read.
func TestCollector(t *testing.T) {
	c := NewCollector(example)
	problems, err := testutil.CollectAndLint(c)
	if err != nil || len(problems) != 0 {
		t.Errorf("%v %v", problems, err)
	}
	want := `
# HELP goccl_operations_total Operations called.
# TYPE goccl_operations_total counter
goccl_operations_total{algorithm="RING",class="to 8 KiB",collective="AllReduce",COMM,protocol="LL",RANK} 3
goccl_operations_total{algorithm="RING",class="larger",collective="AllReduce",COMM,protocol="SIMPLE",RANK} 1
# HELP goccl_wait_seconds_total Time that the rank waited for later ranks in collectives.
# TYPE goccl_wait_seconds_total counter
goccl_wait_seconds_total{COMM,RANK} 1.5
# HELP goccl_deaths_total Processes that ended with open communicators.
# TYPE goccl_deaths_total counter
goccl_deaths_total 2
# HELP goccl_network_retries_total Retransmissions that network devices count.
# TYPE goccl_network_retries_total counter
goccl_network_retries_total{counter="packet_seq_err",device="mlx5_0:1"} 9
`
	want = strings.NewReplacer("COMM",
		`communicator="ab",host="h",name="world"`, "RANK", `rank="1",size="4"`).Replace(want)
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), "goccl_operations_total", "goccl_wait_seconds_total",
		"goccl_deaths_total", "goccl_network_retries_total"); err != nil {
		t.Error(err)
	}
}

// An OTLP endpoint gets the metrics, at the latest at the end.
func TestOpenTelemetry(t *testing.T) {
	var mu sync.Mutex
	var got bytes.Buffer
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got.WriteString(r.Method + " " + r.URL.Path + "\n")
		_, _ = io.Copy(&got, r.Body)
	}))
	defer server.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(example))
	stop, err := OpenTelemetry(t.Context(), registry, server.URL, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, text := range []string{"POST /v1/metrics", "goccl_operations_total", "goccl_bus_bytes_total", "mlx5_0:1",
		"world"} {
		if !strings.Contains(got.String(), text) {
			t.Errorf("%q was not sent", text)
		}
	}
}
