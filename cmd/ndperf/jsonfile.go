package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/bench"
)

// jsonFile is where the report goes. It is opened before the run, because a run is too long to fail at its end, and it
// appears under its name only when it is complete.
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

func newValidate() *cobra.Command {
	floors := true
	cmd := &cobra.Command{
		Use:    "validate FILE",
		Short:  "Check a JSON report: schema, plausibility, verified bytes, bounds",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return fmt.Errorf("validate: %w", err)
			}
			defer f.Close()
			r, err := bench.ReadReport(f)
			if err != nil {
				return fmt.Errorf("validate %s: %w", args[0], err)
			}
			if err := r.Validate(floors); err != nil {
				return fmt.Errorf("validate %s: %w", args[0], err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d results, %d baselines, %d ratios: fine\n",
				args[0], len(r.Results), len(r.Baselines), len(r.Ratios))
			return nil
		},
	}
	cmd.Flags().BoolVar(&floors, "floors", true, "also check that no ratio misses its bound")
	return cmd
}
