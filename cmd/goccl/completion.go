package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash: source <(goccl completion bash); zsh: the same; fish: goccl completion fish | source."`
}

// Run prints a script for the shell, from the same declarations as --help.
func (c *completionCommand) Run(s *streams, k *kong.Context) error {
	if c.Shell == "fish" {
		eachCommand(k.Model.Node, nil, func(n *kong.Node, path []string) {
			fishWords(s.out, n, path)
		})
		return nil
	}
	if c.Shell == "zsh" {
		fmt.Fprint(s.out, "autoload -U +X compinit bashcompinit && compinit && bashcompinit\n")
	}
	var known, words strings.Builder
	eachCommand(k.Model.Node, nil, func(n *kong.Node, path []string) {
		name := strings.Join(path, " ")
		if len(path) > 0 {
			fmt.Fprintf(&known, "%q) path=${path:+$path }$w;;\n", name)
		}
		fmt.Fprintf(&words, "%q) words=%q;;\n", name, strings.Join(bashWords(n), " "))
	})
	_, err := fmt.Fprintf(s.out, `_goccl() {
local cur=${COMP_WORDS[COMP_CWORD]} path= words= w
for w in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do case "${path:+$path }$w" in
%sesac; done
case "$path" in
%sesac
COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _goccl goccl
`, known.String(), words.String())
	return err
}

// eachCommand calls f with a command and the commands below it.
func eachCommand(n *kong.Node, path []string, f func(*kong.Node, []string)) {
	f(n, path)
	for _, child := range n.Children {
		if child.Type == kong.CommandNode && !child.Hidden {
			eachCommand(child, append(path[:len(path):len(path)], child.Name), f)
		}
	}
}

func bashWords(n *kong.Node) (words []string) {
	for _, child := range n.Children {
		words = append(words, child.Name)
	}
	for _, f := range n.Flags {
		words = append(words, "--"+f.Name)
	}
	return words
}

func fishWords(w io.Writer, n *kong.Node, path []string) {
	when := "__fish_use_subcommand"
	if len(path) > 0 {
		when = "__fish_seen_subcommand_from " + path[len(path)-1]
	}
	quote := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	for _, child := range n.Children {
		fmt.Fprintf(w, "complete -c goccl -n '%s' -a %s -d '%s'\n", when, child.Name, quote.Replace(child.Help))
	}
	for _, f := range n.Flags {
		short := ""
		if f.Short != 0 {
			short = " -s " + string(f.Short)
		}
		fmt.Fprintf(w, "complete -c goccl -n '%s' -l %s%s -d '%s'\n", when, f.Name, short, quote.Replace(f.Help))
	}
}

type manCommand struct{}

func (*manCommand) Run(s *streams, k *kong.Context) error {
	text := strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.")
	fmt.Fprintf(s.out, ".TH GOCCL 1\n.SH NAME\ngoccl \\- %s\n.SH COMMANDS\n", text.Replace(k.Model.Help))
	eachCommand(k.Model.Node, nil, func(n *kong.Node, path []string) {
		if len(path) == 0 {
			return
		}
		name := strings.TrimSuffix(n.Summary(), " [flags]")
		fmt.Fprintf(s.out, ".SS goccl %s\n%s\n", text.Replace(name), text.Replace(n.Help))
		for _, a := range n.Positional {
			fmt.Fprintf(s.out, ".TP\n.I %s\n%s\n", text.Replace(a.Summary()), text.Replace(a.Help))
		}
		for _, f := range n.Flags {
			fmt.Fprintf(s.out, ".TP\n.B %s\n%s\n", text.Replace(f.String()), text.Replace(f.Help))
		}
	})
	return nil
}
