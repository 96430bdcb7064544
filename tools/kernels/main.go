// Command build compiles kernels/<group>/*.cu into the images that the Go packages embed. It is what `go generate
// ./kernels` runs.
//
//	go run ./tools/kernels [-group name] [-arch 90] [-check [-all]] [-report]
//
// Flow:
//  1. read every header below kernels/include and every .cu of the group, and hash them with the options;
//  2. leave a group alone whose committed hash and compiler are the same (unless -force);
//  3. compile one translation unit per group and architecture with NVRTC: a cubin each, and PTX of the architectures
//     that stand in for later ones;
//     each in a separate process, because NVRTC compiles one program at a time;
//  4. write the images, <group>/zz_generated.go and kernels/zz_groups.go; name every kernel that uses local memory.
//
// With -check nothing is written: the source hashes must be the committed ones. The images of sm_90 of one group,
// chosen at random, a large one less often, are rebuilt in memory and must equal the committed ones byte for byte. With
// -all every group is built anew for every architecture. A different compiler build cannot be expected to give the same
// bytes; then only the source hash is compared and the skipped half is said.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"

	"github.com/goccl/goccl/internal/driver/nvrtc"
	"github.com/goccl/goccl/internal/setting"
)

// errorPrefix begins what this program says when it fails.
const errorPrefix = "kernels: "

func main() {
	var cfg config
	flag.StringVar(&cfg.root, "root", "", "folder of package kernels (default: found from the working directory)")
	flag.StringVar(&cfg.group, "group", "", "build this group only")
	flag.IntVar(&cfg.arch, "arch", 0, "compile this architecture only, and print -report; nothing is written")
	flag.BoolVar(&cfg.check, "check", false, "rebuild in memory and compare with what is committed")
	flag.BoolVar(&cfg.all, "all", setting.Lenient().Full != "",
		"with -check: rebuild the images of every group and architecture (default with GOCCL_FULL=1)")
	flag.BoolVar(&cfg.worker, "worker", false,
		"compile -group for -arch and write the images to the standard output: this program starts such workers")
	flag.BoolVar(&cfg.force, "force", false, "rebuild groups that are up to date")
	flag.BoolVar(&cfg.report, "report", false,
		"print the resource use of every kernel, also of groups that are up to date")
	flag.Parse()
	if err := run(cfg); err != nil {
		fmt.Fprintf(os.Stderr, "%s%+v\n", errorPrefix, err)
		os.Exit(1)
	}
}

// processAll takes the groups one after the other; checks, which write nothing, side by side.
func processAll(lib *nvrtc.Library, groups []*group, cfg config) error {
	if cfg.check && !cfg.all {
		groups[pick(groups, rand.Float64())].rebuild = true
	}
	errs := make([]error, len(groups))
	var wg sync.WaitGroup
	for i, g := range groups {
		if !cfg.check {
			if err := g.process(lib, cfg); err != nil {
				return err
			}
			continue
		}
		wg.Go(func() { errs[i] = g.process(lib, cfg) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

type config struct {
	root, group               string
	arch                      int
	check, all, force, report bool
	worker                    bool
}

func run(cfg config) error {
	root, err := findRoot(cfg.root)
	if err != nil {
		return err
	}
	groups, err := findGroups(root)
	if err != nil {
		return err
	}
	lib, err := nvrtc.Open(toolsDir(root))
	if err != nil {
		return fmt.Errorf("%w\nrun kernels/install-nvrtc.sh (or `make tools`) first", err)
	}
	if cfg.worker {
		return work(lib, groups, cfg)
	}
	other := func(g *group) bool { return cfg.group != "" && g.name != cfg.group }
	chosen := slices.DeleteFunc(slices.Clone(groups), other)
	if len(chosen) == 0 {
		return fmt.Errorf("no group %q below %s: want a folder with .cu files", cfg.group, root)
	}
	if err := processAll(lib, chosen, cfg); err != nil {
		return err
	}
	if cfg.arch != 0 {
		return nil
	}
	return writeIndex(root, groups, cfg.check)
}
