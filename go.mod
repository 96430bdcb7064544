module github.com/goccl/goccl

go 1.26.0

require (
	github.com/alecthomas/kong v1.17.0
	github.com/google/go-cmp v0.7.0
	github.com/rogpeppe/go-internal v1.16.0
	golang.org/x/sys v0.49.0
	pgregory.net/rapid v1.3.0
)

require golang.org/x/tools v0.36.0 // indirect
