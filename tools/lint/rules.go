package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/OpenPeeDeeP/depguard/v2"
	"go.yaml.in/yaml/v3"
)

// rules holds the settings of golangci-lint that lint uses.
type rules struct {
	dir     string // data that depends on exactly these rules
	Linters struct {
		Enable   []string
		Settings struct {
			Staticcheck struct{ Checks []string }
			Errcheck    struct {
				ExcludeFunctions []string `yaml:"exclude-functions"`
			}
			Depguard struct {
				Rules map[string]struct {
					Files []string
					Deny  []struct{ Pkg, Desc string }
				}
			}
		}
	}
}

// readRules reads the rules. Results of earlier runs are stored separately for each set of rules.
func readRules(path string) (*rules, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: run lint in the module's root", err)
	}
	var r rules
	if err := yaml.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	r.dir = filepath.Join(cache, "goccl-lint", fmt.Sprintf("%x", sha256.Sum256(text))[:16])
	return &r, os.Setenv("STATICCHECK_CACHE", filepath.Join(r.dir, "results"))
}

// check rejects rules that do not enable exactly the linters of this program.
func (r *rules) check() error {
	known := []string{"depguard", "errcheck", "govet", "ineffassign", "misspell", "staticcheck", "unused"}
	slices.Sort(r.Linters.Enable)
	if !slices.Equal(r.Linters.Enable, known) {
		return fmt.Errorf(".golangci.yaml enables %v; this program is %v: make the two equal", r.Linters.Enable, known)
	}
	return nil
}

func (r *rules) checks() string { return strings.Join(r.Linters.Settings.Staticcheck.Checks, ",") }

func (r *rules) imports() *depguard.LinterSettings {
	settings := depguard.LinterSettings{}
	for name, rule := range r.Linters.Settings.Depguard.Rules {
		list := &depguard.List{Files: rule.Files, Deny: map[string]string{}}
		for _, d := range rule.Deny {
			list.Deny[d.Pkg] = d.Desc
		}
		settings[name] = list
	}
	return &settings
}

// excluded writes a file of the functions whose errors may be ignored, and returns its path.
func (r *rules) excluded() (string, error) {
	path := filepath.Join(r.dir, "errcheck-excludes")
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, []byte(strings.Join(r.Linters.Settings.Errcheck.ExcludeFunctions, "\n")+"\n"), 0o644)
}
