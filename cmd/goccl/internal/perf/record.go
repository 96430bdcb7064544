package perf

import (
	"time"

	"github.com/goccl/goccl/internal/buildinfo"
)

// Schema names the layout of Record. It changes when a field is removed or changes its meaning.
const Schema = "goccl-perf/2"

// Record is the file of a measurement: what ran, where, on what, and the results. docs/perf.md describes it.
type Record struct {
	Schema    string          `json:"schema"`
	Time      time.Time       `json:"time"`
	Command   []string        `json:"command"`
	Build     buildinfo.Info  `json:"build"`
	Machine   any             `json:"machine,omitempty"`
	Libraries []RecordLibrary `json:"libraries"`
	Setup     RecordSetup     `json:"setup"`
	Rows      []Row           `json:"rows"`
	Summary   Summary         `json:"summary"`
	// Error is the reason why the measurement ended early. Rows then holds the completed points.
	Error string `json:"error,omitempty"`
}

// RecordLibrary is one measured library; the others are compared with the first.
type RecordLibrary struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// RecordSetup describes the layout of the ranks and the configuration.
type RecordSetup struct {
	Kind     string `json:"collective"`
	Ranks    int    `json:"ranks"`
	Layout   string `json:"layout"` // "threads" of one process, or "processes"
	Launcher string `json:"launcher,omitempty"`
	Device   string `json:"device"` // "host" or "cuda"
	Product  string `json:"product"`
	Graph    int    `json:"graph_ops"` // as configured; -1: chosen by size
	Isolated bool   `json:"isolated"`
	Cycles   int    `json:"cycles"`
	Warmup   int    `json:"warmup"`
	Offset   int64  `json:"offset_elements"`
	// Env holds the variables that change the behaviour of a library.
	Env map[string]string `json:"env,omitempty"`
}
