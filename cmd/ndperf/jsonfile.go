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

// jsonFile is where the report goes. It is opened before the run, because a run is too long to fail at its end, and it
// appears under its name only when it is written to the end.
type jsonFile struct {
	path  string
	file  *os.File // nil for standard output, and when there is nothing more to do
	final string   // what file is called once it is whole; empty when it has its name
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

// open opens a temporary file beside the target of the path. If the target is no ordinary file, such as a pipe or /dev/null, it is opened
// itself and must not be replaced.
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

// oneFile reports whether two paths, of which each may be empty or standard output, lead to the same file. A target that is no ordinary file
// may take both.
func oneFile(a, b string) bool {
	if a == "" || b == "" || a == "-" || b == "-" {
		return false
	}
	info, missing := os.Stat(a)
	return (missing != nil || info.Mode().IsRegular()) && whole(a) == whole(b)
}

// whole returns where a path leads. The file itself need not be there.
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

// write stores the report under its name.
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

// abandon removes what write did not finish.
func (j *jsonFile) abandon() {
	if j.file == nil {
		return
	}
	_ = j.file.Close() // what is in it is worthless
	if j.final != "" {
		_ = os.Remove(j.file.Name())
	}
}

// newValidate returns the machine's judge: what it refuses is broken on any machine. "bars" judges for people.
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

// newReport returns an empty report of the command that runs now.
func newReport() *bench.Report {
	r := bench.NewReport()
	r.Time = time.Now().UTC().Truncate(time.Second)
	r.Command = strings.Join(append([]string{"ndperf"}, os.Args[1:]...), " ")
	return r
}

// errIncomplete returns what is wrong with the report of a run that did not come to its end.
func errIncomplete(r *bench.Report) error {
	if r.Incomplete {
		return errors.New("the run was interrupted, or failed, before all was measured: measure again")
	}
	return nil
}

// readReport reads a report, from standard input where the name is -, and checks what every run must hold.
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
