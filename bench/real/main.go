package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/ndxdp/ndxdp/bench"
)

// errUsage is an error of the command line.
var errUsage = errors.New("usage")

func main() {
	if len(os.Args) == 3 && os.Args[1] == agentCommand {
		if err := runAgent(os.Args[2]); err != nil {
			os.Exit(1) // it has reported the error
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "real:", err)
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// flags are the values of the command line.
type flags struct {
	options
	cases string
	mtu   string
	json  string
	list  bool
}

func parse(args []string, stderr io.Writer) (*flags, error) {
	f := &flags{}
	set := flag.NewFlagSet("real", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&f.cases, "cases", ".", "run the cases whose names match this regular expression")
	set.StringVar(&f.mtu, "mtu", "1500,9000", "MTUs of the link")
	set.DurationVar(&f.duration, "duration", time.Second, "measured time of each case over each transport in each round")
	set.IntVar(&f.rounds, "rounds", 3, "number of rounds, each with all cases")
	set.StringVar(&f.json, "json", "", "write a report to this file, for ndperf report")
	set.StringVar(&f.profile, "profile", "", "write profiles of the processor time of all processes to this directory")
	set.BoolVar(&f.list, "list", false, "list the cases that match, and run none")
	if err := set.Parse(args); err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	if set.NArg() > 0 {
		return nil, fmt.Errorf("%w: %q is no flag", errUsage, set.Arg(0))
	}
	return f, f.check()
}

// Limits of the values, beyond which a run would take hours.
const (
	maxDuration = time.Hour
	maxRounds   = 100
	minMTU      = 576
	maxMTU      = 65535
)

func (f *flags) check() error {
	names, err := regexp.Compile(f.cases)
	if err != nil {
		return fmt.Errorf("%w: --cases: %w", errUsage, err)
	}
	if f.programs = chosen(names); len(f.programs) == 0 {
		return fmt.Errorf("%w: --cases %q matches no case: --list lists them", errUsage, f.cases)
	}
	for text := range strings.SplitSeq(f.mtu, ",") {
		mtu, err := strconv.Atoi(text)
		if err != nil || mtu < minMTU || mtu > maxMTU {
			return fmt.Errorf("%w: --mtu: %q is no number from %d to %d", errUsage, text, minMTU, maxMTU)
		}
		f.mtus = append(f.mtus, mtu)
	}
	switch {
	case f.duration < time.Millisecond || f.duration > maxDuration:
		return fmt.Errorf("%w: --duration %v is out of range: 1ms to %v", errUsage, f.duration, maxDuration)
	case f.rounds < 1 || f.rounds > maxRounds:
		return fmt.Errorf("%w: --rounds %d is out of range: 1 to %d", errUsage, f.rounds, maxRounds)
	}
	return nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case f.list:
		for _, p := range f.programs {
			fmt.Fprintln(stdout, p.name)
		}
		return nil
	case os.Geteuid() != 0:
		return errors.New("needs root: it makes network namespaces and AF_XDP sockets")
	}
	if err := makeDir(f.profile); err != nil {
		return err
	}
	r := &runner{options: f.options, report: bench.NewReport()}
	r.report.Time, r.report.Command = time.Now(), "real "+strings.Join(args, " ")
	r.progress = &progress{w: stderr, total: 2 * len(f.programs) * f.rounds * len(f.mtus), began: time.Now()}
	if file, ok := stderr.(*os.File); ok {
		r.progress.terminal = term.IsTerminal(int(file.Fd()))
	}
	failed := r.all(ctx)
	r.progress.clear()
	r.report.Incomplete = failed != nil
	if len(r.report.Real) > 0 {
		render(stdout, r.report)
		if f.json != "" {
			failed = errors.Join(failed, writeReport(f.json, r.report))
		}
	}
	return failed
}

func writeReport(name string, r *bench.Report) error {
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	if err := errors.Join(r.WriteJSON(file), file.Close()); err != nil {
		return fmt.Errorf("--json: write %s: %w", name, err)
	}
	return nil
}
