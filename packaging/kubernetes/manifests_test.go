// Package kubernetes holds manifests, and its test decodes them. It is a separate module, so that no other package imports the
// types of Kubernetes.
package kubernetes

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// read returns the text of a file.
func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// documents decodes every document of a file strictly: a field that the API does not have is an error.
func documents(t *testing.T, file string, text []byte) (all []any) {
	t.Helper()
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var kind meta.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var into any
		switch kind.APIVersion + " " + kind.Kind {
		case "v1 Namespace":
			into = &core.Namespace{}
		case "apps/v1 DaemonSet":
			into = &apps.DaemonSet{}
		case "v1 Pod":
			into = &core.Pod{}
		default:
			t.Fatalf("%s: %+v", file, kind)
		}
		if err := yaml.UnmarshalStrict(document, into); err != nil {
			t.Errorf("%s, %s: %v", file, kind.Kind, err)
		}
		all = append(all, into)
	}
	return all
}

// The API accepts the manifests, and their parts fit together.
func TestManifests(t *testing.T) {
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		for _, d := range documents(t, file, read(t, file)) {
			switch d := d.(type) {
			case *apps.DaemonSet:
				for key, value := range d.Spec.Selector.MatchLabels {
					if d.Spec.Template.Labels[key] != value {
						t.Errorf("%s selects pods labelled %s=%s, which its own are not", d.Name, key, value)
					}
				}
				checkPod(t, d.Name, &d.Spec.Template.Spec)
			case *core.Pod:
				checkPod(t, d.Name, &d.Spec)
				if c := d.Spec.Containers[0].SecurityContext; c.Capabilities.Add != nil || !*c.RunAsNonRoot {
					t.Errorf("%s has privileges", d.Name)
				}
			}
		}
	}
}

const (
	// brokers is the default directory where programs look for the broker of an interface
	// (docs/OPERATING.md#brokers-and-containers).
	brokers = "/run/ndbroker"
	// private is the library's own directory on the host. Its secret belongs to root alone, and mounting it into a pod would expose
	// the secret to the pod's users.
	private = "/run/ndxdp"
)

// The recipes put sockets where programs look for them by default, and do not mount the library's own directory.
func TestSocketsAreWherePodsLook(t *testing.T) {
	var all []any
	for _, file := range []string{"daemonset.yaml", "pods.yaml"} {
		all = append(all, documents(t, file, read(t, file))...)
	}
	pods := 0
	for _, d := range all {
		var pod *core.PodSpec
		switch d := d.(type) {
		case *apps.DaemonSet:
			pod = &d.Spec.Template.Spec
		case *core.Pod:
			pod = &d.Spec
		default:
			continue
		}
		pods++
		for _, v := range pod.Volumes {
			if v.HostPath == nil || v.HostPath.Path != brokers {
				t.Errorf("volume %s is not the host's %s: %+v", v.Name, brokers, v.HostPath)
			}
		}
		for _, c := range pod.Containers {
			checkRights(t, c.Name, &c)
			if len(c.VolumeMounts) != 1 || c.VolumeMounts[0].MountPath != brokers {
				t.Errorf("%s mounts %+v, want %s", c.Name, c.VolumeMounts, brokers)
			}
			for _, word := range slices.Concat(c.Command, c.Args) {
				if strings.HasPrefix(word, private) || word == "--broker" || word == "--socket" {
					t.Errorf("%s has the argument %s: sockets in %s need no name", c.Name, word, brokers)
				}
			}
		}
	}
	if pods != 3 {
		t.Errorf("%d pods were checked, want 3", pods)
	}
}

// checkPod checks what the types cannot: that volumes exist, that no default privilege remains, and that the command accepts its
// arguments.
func checkPod(t *testing.T, name string, pod *core.PodSpec) {
	t.Helper()
	for _, c := range pod.Containers {
		for _, m := range c.VolumeMounts {
			if !slices.ContainsFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == m.Name }) {
				t.Errorf("%s mounts %s, which is no volume", name, m.Name)
			}
		}
		checkRights(t, name, &c)
		words := append(slices.Clone(c.Command), c.Args...)
		command := filepath.Base(words[0])
		known := exec.CommandContext(t.Context(), "go", append([]string{"run", "./cmd/" + command}, append(subcommand(words[1:]), "--help")...)...)
		known.Dir, known.Env = "../..", append(os.Environ(), "GOWORK=") // this module is outside of the workspace
		help, err := known.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, help)
		}
		for _, w := range words[1:] {
			if strings.HasPrefix(w, "--") && !strings.Contains(string(help), w+" ") {
				t.Errorf("%s: %s knows no %s", name, command, w)
			}
		}
	}
}

// needed are the capabilities of a broker that opens AF_XDP, as in docs/OPERATING.md#brokers-and-containers. To end processes of
// others, it would also need hostPID.
var needed = []core.Capability{"NET_RAW", "NET_ADMIN", "BPF", "IPC_LOCK"}

// checkRights checks that a container has exactly the capabilities that it needs, and a seccomp profile.
func checkRights(t *testing.T, name string, c *core.Container) {
	t.Helper()
	s := c.SecurityContext
	if s == nil || s.Capabilities == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Fatalf("%s keeps privileges that nothing gave it", name)
	}
	if p := s.SeccompProfile; p == nil || p.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s runs without the runtime's seccomp profile", name)
	}
	want := needed
	if c.Name != "ndbroker" {
		want = nil
	}
	if !slices.Equal(s.Capabilities.Add, want) {
		t.Errorf("%s has the capabilities %v, want %v", name, s.Capabilities.Add, want)
	}
}

// subcommand returns the words before the first flag.
func subcommand(words []string) []string {
	if i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") }); i >= 0 {
		return words[:i]
	}
	return words
}
