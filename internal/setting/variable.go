package setting

// Variable is one environment variable that goccl reads. docs/environment.md explains it.
type Variable struct {
	Name string
	// Alias is NCCL's variable that is read when this one is not set.
	Alias string
	// Brief is the purpose in a few words, for `goccl doctor`.
	Brief string

	rule
}

// Variables returns the table.
func Variables() []Variable { return table(new(Config)) }
