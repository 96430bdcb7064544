package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Every panel of the dashboard asks for metrics that exist, and every metric is in a panel.
func TestDashboard(t *testing.T) {
	b, err := os.ReadFile("grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &board); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(example))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	left, known := map[string]bool{}, map[string]bool{}
	for _, f := range families {
		left[f.GetName()], known[f.GetName()] = true, true
	}
	for _, p := range board.Panels {
		names := regexp.MustCompile(`goccl_\w+`).FindAllString(p.Targets[0].Expr, -1)
		if len(names) == 0 {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
		for _, n := range names {
			if !known[n] {
				t.Errorf("panel %q asks for %s, which does not exist", p.Title, n)
			}
			delete(left, n)
		}
	}
	for n := range left {
		t.Errorf("no panel shows %s", n)
	}
}
