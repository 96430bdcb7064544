module github.com/goccl/goccl/tools/lint

go 1.26.0

require (
	github.com/OpenPeeDeeP/depguard/v2 v2.2.1
	github.com/golangci/misspell v0.8.0
	github.com/gordonklaus/ineffassign v0.2.0
	github.com/kisielk/errcheck v1.30.0
	go.yaml.in/yaml/v3 v3.0.5
	golang.org/x/tools v0.52.0
	honnef.co/go/tools v0.8.2
)

require (
	github.com/BurntSushi/toml v1.6.0 // indirect
	github.com/gobwas/glob v0.2.3 // indirect
	golang.org/x/exp/typeparams v0.0.0-20260811152304-ee035b5b010f // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
)
