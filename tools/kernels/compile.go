package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/goccl/goccl/internal/driver/nvrtc"
	"github.com/goccl/goccl/tools/kernels/cubin"
)

// output is one file of a build.
type output struct {
	file string
	sm   int
	ptx  bool
	data []byte
}

// process brings one group up to date, or checks it.
func (g *group) process(lib *nvrtc.Library, cfg config) error {
	if cfg.arch != 0 {
		outs, err := g.compileFor(lib, architecture{sm: cfg.arch})
		if err != nil {
			return err
		}
		return printReport(g.name, outs, true)
	}
	old := g.committed()
	compiler := lib.Version().String()
	switch {
	case cfg.check:
		return g.check(old, compiler, cfg.all)
	case !cfg.force && old.hash == g.hash && old.compiler == compiler && old.complete:
		fmt.Printf("%-12s up to date\n", g.name)
		if cfg.report {
			outs, err := g.readOutputs()
			if err != nil {
				return err
			}
			return printReport(g.name, outs, true)
		}
		return nil
	}
	outs, err := g.compile(architectures)
	if err != nil {
		return err
	}
	if err := g.removeStale(outs); err != nil {
		return err
	}
	for _, o := range outs {
		if err := os.WriteFile(filepath.Join(g.dir, o.file), o.data, 0o644); err != nil {
			return err
		}
	}
	text, err := g.generate(outs, compiler)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(g.dir, generatedFile), text, 0o644); err != nil {
		return err
	}
	return printReport(g.name, outs, cfg.report)
}

// A check rebuilds the images of one group for this architecture, unless it rebuilds all.
const checked = 90

// pick returns a group to rebuild, by a random number below 1: the larger its image is, the less often, by the square
// root, because compilers take as long as images are large.
func pick(groups []*group, random float64) int {
	sums := make([]float64, len(groups))
	sum := 0.0
	for i, g := range groups {
		size := int64(1)
		if info, err := os.Stat(filepath.Join(g.dir, fmt.Sprintf("%s_sm%d.cubin", g.name, checked))); err == nil {
			size = max(size, info.Size())
		}
		sum += 1 / math.Sqrt(float64(size))
		sums[i] = sum
	}
	i, _ := slices.BinarySearch(sums, random*sum)
	return min(i, len(groups)-1)
}

// check compares the sources, and rebuilds images and compares them.
func (g *group) check(old committed, compiler string, all bool) error {
	if old.hash != g.hash || !old.complete {
		return fmt.Errorf("%s: the committed build is not of these sources: "+
			"run `go generate ./kernels` and commit the result", g.name)
	}
	if old.compiler != compiler {
		fmt.Printf("%-12s sources match; images not compared: they were made by %s, here is %s\n",
			g.name, old.compiler, compiler)
		return nil
	}
	archs := architectures
	switch {
	case !all && !g.rebuild:
		fmt.Printf("%-12s sources match\n", g.name)
		return nil
	case !all:
		archs = slices.DeleteFunc(slices.Clone(archs), func(a architecture) bool { return a.sm != checked })
	}
	outs, err := g.compile(archs)
	if err != nil {
		return err
	}
	for _, o := range outs {
		have, err := os.ReadFile(filepath.Join(g.dir, o.file))
		if err != nil {
			return err
		}
		if !bytes.Equal(have, o.data) {
			return fmt.Errorf("%s/%s: a rebuild by the same compiler gives %d other bytes: "+
				"run `go run ./tools/kernels -force` and look at the difference", g.name, o.file, len(o.data))
		}
	}
	names := make([]string, len(outs))
	for i, o := range outs {
		names[i] = o.file
	}
	fmt.Printf("%-12s identical: %s\n", g.name, strings.Join(names, ", "))
	return nil
}

// compileFor makes the images of one architecture. Warnings are errors: device code has no second reader.
func (g *group) compileFor(lib *nvrtc.Library, a architecture) ([]output, error) {
	res, err := lib.Compile(nvrtc.Program{
		Source:  g.unit,
		Name:    g.name + ".cu",
		Headers: g.headers,
		Options: append([]string{fmt.Sprintf("-arch=sm_%d", a.sm)}, options...),
	})
	if err != nil {
		return nil, fmt.Errorf("%s for sm_%d: %w", g.name, a.sm, err)
	}
	if strings.Contains(res.Log, "warning") {
		return nil, fmt.Errorf("%s for sm_%d compiles with warnings:\n%s", g.name, a.sm, res.Log)
	}
	outs := []output{{file: fmt.Sprintf("%s_sm%d.cubin", g.name, a.sm), sm: a.sm, data: res.CUBIN}}
	if a.ptx {
		outs = append(outs, output{file: fmt.Sprintf("%s_compute%d.ptx", g.name, a.sm), sm: a.sm, ptx: true, data: res.PTX})
	}
	return outs, nil
}

// removeStale deletes images that this build does not make any more.
func (g *group) removeStale(outs []output) error {
	for _, pattern := range []string{"*.cubin*", "*.ptx*"} {
		paths, err := filepath.Glob(filepath.Join(g.dir, g.name+"_"+pattern))
		if err != nil {
			return err
		}
		for _, path := range paths {
			if slices.ContainsFunc(outs, func(o output) bool { return o.file == filepath.Base(path) }) {
				continue
			}
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// readOutputs loads the committed cubins.
func (g *group) readOutputs() ([]output, error) {
	var outs []output
	for _, a := range architectures {
		file := fmt.Sprintf("%s_sm%d.cubin", g.name, a.sm)
		data, err := os.ReadFile(filepath.Join(g.dir, file))
		if err != nil {
			return nil, err
		}
		outs = append(outs, output{file: file, sm: a.sm, data: data})
	}
	return outs, nil
}

// printReport is the resource table: one row a kernel and architecture. Without all, only kernels that use local memory
// have a row.
func printReport(group string, outs []output, all bool) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\tarch\tregisters\tshared\tlocal\tcode\t\n", group)
	total := 0
	for _, o := range outs {
		total += len(o.data)
		if o.ptx {
			continue
		}
		list, err := cubin.Inspect(o.data)
		if err != nil {
			return fmt.Errorf("%s: %w", o.file, err)
		}
		for _, k := range list {
			if !all && k.Local == 0 {
				continue
			}
			fmt.Fprintf(w, "%s\tsm_%d\t%d\t%d\t%d\t%d\t\n", k.Name, o.sm, k.Registers, k.Shared, k.Local, k.Code)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Printf("%s: %d images, %d bytes\n", group, len(outs), total)
	return nil
}

// kernelNames are the entry points that every architecture has; a kernel that is missing somewhere is an error.
func kernelNames(outs []output) ([]string, error) {
	var names []string
	for _, o := range outs {
		if o.ptx {
			continue
		}
		list, err := cubin.Inspect(o.data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.file, err)
		}
		var these []string
		for _, k := range list {
			these = append(these, k.Name)
		}
		if names != nil && !slices.Equal(names, these) {
			return nil, fmt.Errorf("%s: entry points %v differ from %v of another architecture", o.file, these, names)
		}
		names = these
	}
	return names, nil
}
