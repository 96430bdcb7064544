package setting

// Section is a table of docs/environment.md.
type Section uint8

// The sections.
const (
	Own      Section = iota // goccl's own
	Foreign                 // of CUDA toolkits and terminals
	Doors                   // of the C ABI and Python
	Tests                   // for tests and measurements
	Internal                // between programs of goccl itself: not documented
)

// Variable is one environment variable that goccl reads.
type Variable struct {
	Name string
	// Alias is NCCL's variable that is read when this one is not set.
	Alias string
	// Want names the allowed values, for errors: "want …".
	Want    string
	Section Section
	Default string // for the documents
	Doc     string // for the documents
	// Brief is the purpose in a few words, for `goccl doctor`.
	Brief string

	set setter // nil: not read by Go
}

// ReadByGo reports whether Parse reads the variable. C code, Python or scripts read the others.
func (v *Variable) ReadByGo() bool { return v.set != nil }

// Variables returns the table, in the order of the documents.
func Variables() []Variable { return table }

// Honoured are variables of NCCL that have the same meaning in goccl.
type Honoured struct{ Names, Doc string }

// Ignored are NCCL's variables that goccl does not read, and why. A name that ends in * stands for all that begin so.
type Ignored struct {
	Names []string
	Why   string
	// Warns means that they change results, placement or waiting in NCCL: the C ABI warns when one is set.
	Warns bool
}
