package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/internal/buildinfo"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndhealth"
	"github.com/ndxdp/ndxdp/nd/ndinspect"
)

// aboutReport is the text of the first file of an archive.
const aboutReport = `A report about ND on one machine, made by "ndinfo bugreport".

build.json      which build of ndinfo made it
machine.json    kernel, processors, limits, and each interface: driver, queues, rings, offloads, counters
adapters.json   what could be opened, how its packets would move, and the limits of adapters
doctor.json     what "ndinfo doctor" finds about each interface that has an address
kernel/         what the kernel says in /proc, as it is
processes/      each process with an adapter that this user may see: its build, counters, connections, and the last events of its engines
problems.txt    what could not be read

It has addresses of interfaces and of peers, names of processes and of the machine. It has no payload, no packets and no keys.
`

// kernelFiles are copied into an archive unchanged.
var kernelFiles = []string{
	"/etc/os-release", "/proc/version", "/proc/uptime", "/proc/loadavg", "/proc/meminfo", "/proc/interrupts", "/proc/softirqs", "/proc/pressure/cpu",
	"/proc/self/limits", "/proc/self/status", "/proc/thread-self/net/dev", "/proc/thread-self/net/snmp", "/proc/thread-self/net/snmp6",
	"/proc/thread-self/net/softnet_stat", "/proc/thread-self/net/protocols", "/proc/sys/net/core/rmem_max", "/proc/sys/net/core/wmem_max",
	"/proc/sys/net/core/busy_poll", "/proc/sys/net/core/netdev_budget", "/proc/sys/net/core/netdev_max_backlog", "/proc/sys/net/core/bpf_jit_enable",
	"/proc/sys/net/ipv4/ip_local_port_range", "/proc/sys/net/unix/max_dgram_qlen", "/proc/sys/kernel/unprivileged_bpf_disabled",
	"/proc/sys/user/max_user_namespaces", "/sys/kernel/mm/transparent_hugepage/enabled",
	"/sys/devices/system/clocksource/clocksource0/current_clocksource", "/sys/devices/system/cpu/smt/active",
}

// maxKernelFile is the largest size of one of them.
const maxKernelFile = 1 << 20

// summary is the output of bugreport.
type summary struct {
	File     string   `json:"file"`
	Contents []member `json:"contents"`
}

func newBugreport(asJSON *bool) *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use:   "bugreport",
		Short: "Write one archive with the facts that a report of a fault needs",
		Long: `bugreport writes an archive of facts about ND on this machine: facts and findings of doctor, the kernel,
interfaces with drivers and offloads, limits and builds. It adds the counters, connections and flight recorders of all
running processes with an adapter. The archive has addresses and names, but no payload, no packets and no keys.
bugreport changes nothing. Only root sees the processes of other users.

Exit status: 0 when the archive was written, 1 when not, 2 for a wrong command line.`,
		Example: `  sudo ndinfo bugreport                       ndxdp-bugreport-HOST-TIME.tar.gz, here
  sudo ndinfo bugreport -o /var/tmp/x.tar.gz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == "-" {
				return cli.Usagef("-o -: standard output has the list of contents: name a file for the archive")
			}
			name := archiveName(time.Now())
			path := output
			if path == "" {
				path = name + ".tar.gz"
			}
			contents, err := writeReport(cmd.Context(), path, name, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			s := summary{path, contents}
			if *asJSON {
				return writeJSON(cmd.OutOrStdout(), s)
			}
			for _, m := range s.Contents {
				fmt.Fprintf(cmd.OutOrStdout(), "%9d  %s\n", m.Bytes, cli.Printable(m.Name))
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d files; look through it before it goes to others\n", cli.Printable(path), len(s.Contents))
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "file to write, which must not exist (default: ndxdp-bugreport-HOST-TIME.tar.gz)")
	return cmd
}

// archiveName returns the name of an archive and of the directory in it.
func archiveName(now time.Time) string {
	host, err := os.Hostname()
	if err != nil || strings.ContainsRune(host, '/') {
		host = "unknown"
	}
	return "ndxdp-bugreport-" + host + "-" + now.UTC().Format("20060102T150405Z")
}

// writeReport writes the archive. It removes a file that it could not complete.
func writeReport(ctx context.Context, path, name string, progress io.Writer) (contents []member, err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("-o: %w: name a new file in a directory that can be written", err)
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(path))
		}
	}()
	r := &reporter{archive: newArchive(file, name, time.Now()), progress: progress}
	for _, part := range []struct {
		name   string
		gather func(context.Context)
	}{
		{"machine", r.machine}, {"interfaces", r.doctor}, {"kernel", r.kernel}, {"processes", r.processes},
	} {
		fmt.Fprintf(progress, "ndinfo: looking at: %s\n", part.name)
		part.gather(ctx)
		if err := ctx.Err(); err != nil {
			return nil, err // a partial archive would look complete
		}
	}
	r.archive.text("problems.txt", strings.Join(r.problems, "\n")+"\n")
	return r.archive.close()
}

// reporter collects the files of an archive. A file that cannot be read becomes a problem in the report.
type reporter struct {
	archive  *archive
	progress io.Writer
	problems []string
}

func (r *reporter) failed(what string, err error) {
	r.problems = append(r.problems, what+": "+cli.OneLine(err))
}

func (r *reporter) machine(context.Context) {
	r.archive.text("README", aboutReport)
	r.archive.json("build.json", buildinfo.Read())
	m, err := ndhealth.Inventory()
	if err != nil {
		r.failed("machine", err)
	}
	r.archive.json("machine.json", m)
	adapters, err := ndhealth.Adapters()
	if err != nil {
		r.failed("adapters", err)
	}
	r.archive.json("adapters.json", adapters)
}

func (r *reporter) doctor(ctx context.Context) {
	names, err := interfaces()
	if err != nil {
		r.failed("interfaces", err)
	}
	reports := []ndhealth.Report{}
	for _, name := range names {
		fmt.Fprintf(r.progress, "ndinfo: looking at: interface %s\n", cli.Printable(name))
		report, err := ndhealth.Examine(ctx, ndhealth.Config{Interface: name, Datapath: nd.DatapathAuto})
		if err != nil {
			r.failed("doctor "+name, err)
			continue
		}
		reports = append(reports, report)
	}
	r.archive.json("doctor.json", reports)
}

func (r *reporter) kernel(context.Context) {
	for _, path := range kernelFiles {
		f, err := os.Open(path)
		if err != nil {
			r.failed("kernel", err)
			continue
		}
		text, err := io.ReadAll(io.LimitReader(f, maxKernelFile))
		_ = f.Close() // opened read-only
		if err != nil {
			r.failed("kernel", err)
		}
		r.archive.text("kernel"+path, string(text))
	}
}

func (r *reporter) processes(ctx context.Context) {
	sockets := ndinspect.Sockets()
	slices.Sort(sockets)
	fmt.Fprintf(r.progress, "ndinfo: looking at: %d processes\n", len(sockets))
	for i, a := range ndinspect.AskAll(ctx, sockets, ndinspect.Request{Flight: true}) {
		if errors.Is(a.Err, ndinspect.ErrGone) || ctx.Err() != nil {
			continue
		}
		if a.Err != nil {
			r.failed("process", a.Err)
			continue
		}
		reply := a.Reply
		fmt.Fprintf(r.progress, "ndinfo: looking at: process %d %s\n", reply.PID, cli.Printable(reply.Command))
		name := fmt.Sprintf("processes/%d-%s", i, strings.TrimSuffix(filepath.Base(a.Socket), filepath.Ext(a.Socket)))
		r.archive.text(name+".flight.txt", reply.Flight)
		reply.Flight = ""
		r.archive.json(name+".json", reply)
	}
}
