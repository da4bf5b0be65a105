package main

import (
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
	path string
	tmp  *os.File
	w    io.Writer
}

func openJSON(path string, stdout io.Writer) (*jsonFile, error) {
	j := &jsonFile{path: path}
	switch path {
	case "":
	case "-":
		j.w = stdout
	default:
		tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
		if err != nil {
			return nil, fmt.Errorf("--json: cannot write the report to %s: %w", path, err)
		}
		j.tmp, j.w = tmp, tmp
	}
	return j, nil
}

func (j *jsonFile) toStdout() bool { return j.path == "-" }

// write stores the report under its name.
func (j *jsonFile) write(r *bench.Report) error {
	if j.w == nil {
		return nil
	}
	err := r.WriteJSON(j.w)
	if j.tmp != nil && err == nil {
		if err = j.tmp.Chmod(0o644); err == nil {
			err = j.tmp.Close()
		}
		if err == nil {
			err = os.Rename(j.tmp.Name(), j.path)
		}
		if err == nil {
			j.tmp = nil
		}
	}
	if err != nil {
		return fmt.Errorf("write the report to %s: %w", j.path, err)
	}
	return nil
}

// abandon removes what write did not finish.
func (j *jsonFile) abandon() {
	if j.tmp != nil {
		_ = j.tmp.Close() // the file is worthless
		_ = os.Remove(j.tmp.Name())
	}
}

// newValidate is the machine's judge: what it refuses is broken on any machine. "bars" judges for people.
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
					err = r.MissedFloors()
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

// readReport reads a report and checks what every run must hold.
func readReport(name string) (*bench.Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := bench.ReadReport(f)
	if err != nil {
		return nil, err
	}
	return r, r.Validate()
}
