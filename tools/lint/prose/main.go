// Prose finds sentences that a reader must guess at, in comments and messages of Go, CUDA, C, Python and shell sources:
// pronouns without nouns ("those of", "what it is") and words of this project for words of the field.
//
// Usage: prose [-count] [folder]. It prints file:line and the phrase, and fails if there is one. -count prints a number
// for each top folder instead.
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// banned are the phrases, in lower case. CONTRIBUTING.md says what to write instead.
var banned = regexp.MustCompile(`\b(?:(?:that|those) of|what (?:it|they|is|are|has|have) \w+` +
	`|what (?:it|they) (?:is|are|has)|of (?:its|their) own|as many|alike|but for|lets go` +
	`|(?:all|every\w*|nothing|nobody|none|any\w*|no (?:one|other))(?: [\w']+){0,2} but)\b`)

// comment matches what a line says to a reader: the text behind // or #, the lines of a block comment, and strings with
// a space in them. C and Go share the first form; Python and shell the second one.
var (
	slashes = regexp.MustCompile(`//.*|^\s*/?\*.*|"[^"]* [^"]*"`)
	hashes  = regexp.MustCompile(`(?:^|\s)#.*|"""[^"]*|"[^"]* [^"]*"`)
	kinds   = map[string]*regexp.Regexp{".go": slashes, ".cu": slashes, ".cuh": slashes, ".h": slashes, ".hpp": slashes,
		".c": slashes, ".cpp": slashes, ".py": hashes, ".sh": hashes}
	skipped = []string{"build", "results", "testdata", "prose"}
)

// find returns the phrases of a text as "line: phrase".
func find(text string, said *regexp.Regexp) (found []string) {
	for i, line := range strings.Split(text, "\n") {
		for _, s := range said.FindAllString(line, -1) {
			for _, phrase := range banned.FindAllString(strings.ToLower(s), -1) {
				found = append(found, fmt.Sprintf("%d: %q", i+1, phrase))
			}
		}
	}
	return found
}

func main() {
	count := flag.Bool("count", false, "print a number for each folder")
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	total := map[string]int{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || slices.Contains(skipped, name)) {
			return filepath.SkipDir
		}
		said := kinds[filepath.Ext(name)]
		if d.IsDir() || said == nil {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		top := filepath.Dir(rel)
		for _, f := range find(string(text), said) {
			total[top]++
			if !*count {
				fmt.Printf("%s:%s: name the thing\n", rel, f)
			}
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	}
	all := 0
	for top, n := range total {
		all += n
		if *count {
			fmt.Println(n, top)
		}
	}
	if all > 0 {
		fmt.Fprintf(os.Stderr, "prose: %d sentences to rewrite\n", all)
		os.Exit(1)
	}
}
