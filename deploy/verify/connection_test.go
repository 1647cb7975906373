package verify

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// helmTest returns the pod of helm test, and the NetworkPolicy that exists with it.
func helmTest(t *testing.T, values map[string]any) (pod *core.Pod, policy *networking.NetworkPolicy) {
	t.Helper()
	for _, m := range renderHooks(t, values) {
		if m.object.GetAnnotations()["helm.sh/hook"] != "test" || m.namespace() != "mesh" {
			t.Errorf("%s is a hook of %q in the namespace %q", m, m.object.GetAnnotations()["helm.sh/hook"], m.namespace())
		}
		switch o := m.object.(type) {
		case *core.Pod:
			pod = o
		case *networking.NetworkPolicy:
			policy = o
		default:
			t.Errorf("there is a hook %s", m)
		}
	}
	if pod == nil {
		t.Fatal("helm test has no pod")
	}
	return pod, policy
}

// TestHelmTest: for all values, helm test runs the program in a pod that complies with the
// restricted Pod Security Standard, has the files of a relay, and is not part of the release's
// Services. TestHelmTestRuns runs it.
func TestHelmTest(t *testing.T) {
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			values := readValues(t, file)
			pod, _ := helmTest(t, values)
			checkRestricted(t, pod.Spec)
			if pod.Spec.RestartPolicy != core.RestartPolicyNever {
				t.Errorf("the restart policy is %s", pod.Spec.RestartPolicy)
			}
			all, _, err := render(t, values)
			if err != nil {
				t.Fatal(err)
			}
			relay := workloadOf(t, all)
			for _, c := range pod.Spec.Containers {
				if c.Image != relay.pod.Spec.Containers[0].Image || len(c.Command) > 0 || !slices.Contains(c.Args, "--connect") {
					t.Errorf("%s runs %q %q of the image %s", c.Name, c.Command, c.Args, c.Image)
				}
			}
			if got, want := pod.Spec.Containers[0].VolumeMounts, relay.pod.Spec.Containers[0].VolumeMounts; !slices.Equal(names(got), names(want)) {
				t.Errorf("the configuration is tested with %v, and relays have %v", names(got), names(want))
			}
			selectors := []*meta.LabelSelector{relay.selector}
			for _, m := range all {
				switch o := m.object.(type) {
				case *core.Service:
					selectors = append(selectors, &meta.LabelSelector{MatchLabels: o.Spec.Selector})
				case *networking.NetworkPolicy:
					selectors = append(selectors, &o.Spec.PodSelector)
				}
			}
			for _, s := range selectors {
				if matches(t, s, pod.Labels) {
					t.Errorf("%v selects the pod of the test", s)
				}
			}
		})
	}
}

// TestHelmTestConnects: helm test connects as a client with the TLS of the values. It omits the
// connection if it has no certificate for it, and a NetworkPolicy lets it connect.
func TestHelmTestConnects(t *testing.T) {
	const plain, verified, authenticated = "", "--upstream-tls-ca", "--upstream-tls-ca --upstream-tls-cert --upstream-tls-key"
	for file, want := range map[string]struct {
		omitted bool
		flags   string
		policy  bool
	}{
		"minimal":             {flags: plain},
		"tier-token":          {flags: plain},
		"tls":                 {flags: verified},
		"cert-manager":        {flags: verified},
		"client-certificates": {flags: authenticated, policy: true},
		"everything":          {flags: plain, policy: true},
		"spiffe":              {omitted: true},
		"existing":            {omitted: true},
	} {
		pod, policy := helmTest(t, readValues(t, "testdata/values/"+file+".yaml"))
		client := slices.IndexFunc(pod.Spec.Containers, func(c core.Container) bool { return c.Name == "client" })
		if want.omitted != (client < 0) {
			t.Errorf("%s: the connection is container %d", file, client)
		}
		if client >= 0 {
			var flags []string
			args := pod.Spec.Containers[client].Args
			for i, arg := range args {
				if strings.HasPrefix(arg, "--upstream-tls") {
					flags = append(flags, arg)
					if mounts := pod.Spec.Containers[client].VolumeMounts; len(mounts) != 1 || !strings.HasPrefix(args[i+1], mounts[0].MountPath+"/") {
						t.Errorf("%s: %s is not mounted", file, args[i+1])
					}
				}
			}
			if got := strings.Join(flags, " "); got != want.flags || !strings.Contains(strings.Join(args, " "), "--upstream shop-") {
				t.Errorf("%s: the arguments are %q, expected the flags %q", file, args, want.flags)
			}
		}
		if want.policy != (policy != nil) {
			t.Errorf("%s: there is a NetworkPolicy: %v", file, policy != nil)
		}
		if policy != nil && !matches(t, policy.Spec.Ingress[0].From[0].PodSelector, pod.Labels) {
			t.Errorf("%s: the NetworkPolicy does not select %v", file, pod.Labels)
		}
	}
}

func names(all []core.VolumeMount) (names []string) {
	for _, m := range all {
		names = append(names, m.MountPath)
	}
	return names
}

func matches(t *testing.T, s *meta.LabelSelector, of map[string]string) bool {
	t.Helper()
	selector, err := meta.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return selector.Matches(labels.Set(of))
}
