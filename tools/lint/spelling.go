package main

import (
	"go/token"
	"os"

	"github.com/golangci/misspell"
	"golang.org/x/tools/go/analysis"
)

// spelling finds words that are commonly misspelt, in comments, strings and names.
var spelling = &analysis.Analyzer{
	Name: "misspell",
	Doc:  "finds commonly misspelt words",
	Run:  spell,
}

var words = misspell.New()

func spell(pass *analysis.Pass) (any, error) {
	for _, f := range pass.Files {
		file := pass.Fset.File(f.FileStart)
		text, err := os.ReadFile(file.Name())
		if err != nil {
			return nil, err
		}
		_, wrong := words.Replace(string(text))
		for _, w := range wrong {
			at := file.LineStart(w.Line) + token.Pos(w.Column)
			pass.Reportf(at, "%q is misspelt: %q", w.Original, w.Corrected)
		}
	}
	return nil, nil
}
