package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/bench"
)

// jsonFile is the file of the report. It is opened before the run, so that a long run does not fail at its end. It gets its final
// name only when it is complete.
type jsonFile struct {
	path  string
	file  *os.File // nil for standard output, and after the file is complete
	final string   // final name of a temporary file; empty if the file already has its name
	w     io.Writer
}

func openJSON(path string, stdout io.Writer) (*jsonFile, error) {
	j := &jsonFile{path: path}
	switch path {
	case "":
	case "-":
		j.w = stdout
	default:
		if err := j.open(); err != nil {
			return nil, fmt.Errorf("--json: cannot write the report to %s: %w", path, err)
		}
		j.w = j.file
	}
	return j, nil
}

// open opens a temporary file in the directory of the path. If the path is not a regular file, such as a pipe or /dev/null, open
// opens it directly.
func (j *jsonFile) open() (err error) {
	if info, missing := os.Stat(j.path); missing == nil && !info.Mode().IsRegular() {
		j.file, err = os.OpenFile(j.path, os.O_WRONLY, 0)
		return err
	}
	j.final = j.path
	if to, missing := filepath.EvalSymlinks(j.path); missing == nil {
		j.final = to
	}
	j.file, err = os.CreateTemp(filepath.Dir(j.final), "."+filepath.Base(j.final)+".*")
	return err
}

// oneFile reports whether two paths lead to the same regular file. A path may be empty or standard output.
func oneFile(a, b string) bool {
	if a == "" || b == "" || a == "-" || b == "-" {
		return false
	}
	info, missing := os.Stat(a)
	return (missing != nil || info.Mode().IsRegular()) && whole(a) == whole(b)
}

// whole resolves symbolic links in a path. The file itself need not exist.
func whole(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

func (j *jsonFile) toStdout() bool { return j.path == "-" }

// write writes the report and gives the file its name.
func (j *jsonFile) write(r *bench.Report) error {
	if j.w == nil {
		return nil
	}
	err := r.WriteJSON(j.w)
	if j.file != nil && err == nil {
		err = j.finish()
	}
	if err != nil {
		return fmt.Errorf("write the report to %s: %w", j.path, err)
	}
	return nil
}

func (j *jsonFile) finish() error {
	if j.final != "" {
		if err := j.file.Chmod(0o644); err != nil {
			return err
		}
	}
	err := j.file.Close()
	if err == nil && j.final != "" {
		err = os.Rename(j.file.Name(), j.final)
	}
	if err == nil {
		j.file = nil
	}
	return err
}

// abandon removes an incomplete file.
func (j *jsonFile) abandon() {
	if j.file == nil {
		return
	}
	_ = j.file.Close() // its contents are not needed
	if j.final != "" {
		_ = os.Remove(j.file.Name())
	}
}

// newValidate returns the command validate. It checks what must hold on any machine; "bars" compares with bounds.
func newValidate() *cobra.Command {
	return &cobra.Command{
		Use:    "validate FILE...",
		Short:  "Check each JSON report: schema, plausibility, verified operations, and no figure beyond its floor",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				r, err := readReport(name)
				if err == nil {
					err = errors.Join(errIncomplete(r), r.MissedFloors())
				}
				if err != nil {
					return fmt.Errorf("validate %s: %w", name, err)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %d results, %d rivals, %d sides of connections, %d programs, %d ratios: whole, verified, no figure beyond its floor\n",
					name, len(r.Results), len(r.Baselines), len(r.Connections), len(r.Apps), len(r.Ratios))
			}
			return nil
		},
	}
}

// newReport returns an empty report of the present command.
func newReport() *bench.Report {
	r := bench.NewReport()
	r.Time = time.Now().UTC().Truncate(time.Second)
	r.Command = strings.Join(append([]string{"ndperf"}, os.Args[1:]...), " ")
	return r
}

// errIncomplete returns an error if the report's run was interrupted or failed.
func errIncomplete(r *bench.Report) error {
	if r.Incomplete {
		return errors.New("the report is incomplete, because the run was interrupted or failed: measure again")
	}
	return nil
}

// readReport reads a report, from standard input if the name is -, and checks what must hold for every run.
func readReport(name string) (*bench.Report, error) {
	f := os.Stdin
	if name != "-" {
		var err error
		if f, err = os.Open(name); err != nil {
			return nil, err
		}
		defer f.Close()
	}
	r, err := bench.ReadReport(f)
	if err != nil {
		return nil, err
	}
	return r, r.Validate()
}
