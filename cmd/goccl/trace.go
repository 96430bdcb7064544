package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/goccl/goccl/internal/regular"
	"github.com/goccl/goccl/watch/record"
)

type traceCommand struct {
	Format string   `default:"trace" enum:"trace,text,json,torch,torch-json" help:"trace (Chrome's, for Perfetto), text, json, torch or torch-json (PyTorch's flight recorder; torch writes a file for each rank)."`
	Out    string   `short:"o" placeholder:"PATH" help:"Write there; for torch a folder. Otherwise to standard output."`
	Stack  bool     `help:"The stacks of a process too. It must answer at its socket. As text, stacks first, or with --format json."`
	From   []string `arg:"" optional:"" help:"Processes, files or folders of GOCCL_RECORD_DIR. Otherwise all processes of this user on this host."`
}

func (c *traceCommand) Run(s *streams) error {
	if c.Stack {
		return c.stacks(s)
	}
	list, err := c.read()
	if err != nil {
		return err
	}
	if c.Format == "torch" {
		if c.Out == "" {
			return errors.New("PyTorch's dumps are a file for each rank: name a folder with --out")
		}
		if err := os.MkdirAll(c.Out, 0o700); err != nil {
			return err
		}
		for _, p := range list {
			if err := record.WriteTorch(c.Out, p); err != nil {
				return err
			}
		}
		return nil
	}
	var b bytes.Buffer
	if c.Format == "trace" {
		err = record.WriteTrace(&b, list...)
	} else {
		for _, p := range list {
			err = errors.Join(err, record.Write(&b, p, c.Format))
		}
	}
	if err != nil {
		return err
	}
	return c.write(s, b.Bytes())
}

func (c *traceCommand) write(s *streams, b []byte) error {
	if c.Out != "" {
		return regular.Save(c.Out, b, s.out)
	}
	_, err := s.out.Write(b)
	return err
}

func (c *traceCommand) read() (list []*record.Process, err error) {
	if len(c.From) == 0 {
		for _, pid := range record.Processes() {
			if p, err := record.Of(pid); err == nil {
				list = append(list, p)
			}
		}
		if len(list) == 0 {
			return nil, errors.New("no process of this user on this host has a communicator of goccl; name a file of " +
				"GOCCL_RECORD_DIR to read the records of one that has ended")
		}
		return list, nil
	}
	for _, from := range c.From {
		if pid, err := strconv.Atoi(from); err == nil {
			p, err := record.Of(pid)
			if err != nil {
				return nil, err
			}
			list = append(list, p)
			continue
		}
		paths := []string{from}
		if info, err := os.Stat(from); err == nil && info.IsDir() {
			if paths, err = filepath.Glob(filepath.Join(from, record.FileName+"-*")); err != nil || len(paths) == 0 {
				return nil, fmt.Errorf("%s: there are no files %s-*", from, record.FileName)
			}
		}
		for _, path := range paths {
			p, err := record.ReadFile(path)
			if err != nil {
				return nil, err
			}
			list = append(list, p)
		}
	}
	return list, nil
}

func (c *traceCommand) stacks(s *streams) error {
	var b bytes.Buffer
	for _, from := range c.From {
		pid, err := strconv.Atoi(from)
		if err != nil {
			return &exitError{2, fmt.Errorf("--stack %s: name a process by its number", from)}
		}
		socket, err := record.Socket(pid)
		if err != nil {
			return err
		}
		text, err := record.Ask(socket, "stack")
		if err != nil {
			return fmt.Errorf("process %d does not answer; `goccl trace %d` reads its records without its help: %w", pid, pid,
				err)
		}
		if c.Format == "json" {
			b.Write(text)
			continue
		}
		var p struct {
			record.Process
			Stacks string `json:"stacks"`
		}
		if err := json.Unmarshal(text, &p); err != nil {
			return fmt.Errorf("process %d does not answer with a record: %w", pid, err)
		}
		fmt.Fprintf(&b, "stacks of process %d\n\n%s\n", pid, p.Stacks)
		if err := record.Write(&b, &p.Process, "text"); err != nil {
			return err
		}
	}
	if b.Len() == 0 {
		return &exitError{2, errors.New("--stack: name a process, as goccl watch lists them")}
	}
	return c.write(s, b.Bytes())
}
