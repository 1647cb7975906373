package verify

import (
	"maps"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// workload is what a Deployment and a DaemonSet have in common.
type workload struct {
	name     string
	selector *meta.LabelSelector
	pod      core.PodTemplateSpec
}

// workloadOf returns the only workload.
func workloadOf(t *testing.T, all []manifest) workload {
	t.Helper()
	var found []workload
	for _, m := range all {
		switch o := m.object.(type) {
		case *apps.Deployment:
			found = append(found, workload{o.Name, o.Spec.Selector, o.Spec.Template})
		case *apps.DaemonSet:
			found = append(found, workload{o.Name, o.Spec.Selector, o.Spec.Template})
		}
	}
	if len(found) != 1 {
		t.Fatalf("there are %d workloads", len(found))
	}
	return found[0]
}

// checkManifests holds that the parts fit one another.
func checkManifests(t *testing.T, all []manifest) {
	t.Helper()
	w := workloadOf(t, all)
	names := map[string]bool{}
	for _, m := range all {
		if id := m.String(); names[id] {
			t.Errorf("%s is there twice", id)
		} else {
			names[id] = true
		}
	}
	c := w.pod.Spec.Containers[0]
	ports := map[string]bool{}
	for _, p := range c.Ports {
		ports[p.Name] = true
	}
	w.selects(t, "the workload", w.selector)
	checkRestricted(t, w.pod.Spec)
	checkProbes(t, c, ports)
	checkMounts(t, w.pod.Spec)
	for _, s := range w.pod.Spec.TopologySpreadConstraints {
		w.selects(t, "a topology spread constraint", s.LabelSelector)
	}
	for _, m := range all {
		switch o := m.object.(type) {
		case *core.Service:
			w.selects(t, m.String(), &meta.LabelSelector{MatchLabels: o.Spec.Selector})
			for _, p := range o.Spec.Ports {
				if !ports[p.TargetPort.StrVal] {
					t.Errorf("%s: no container port %s", m, p.TargetPort.StrVal)
				}
			}
		case *policy.PodDisruptionBudget:
			w.selects(t, m.String(), o.Spec.Selector)
		case *networking.NetworkPolicy:
			w.selects(t, m.String(), &o.Spec.PodSelector)
			open := map[string]bool{}
			for _, rule := range o.Spec.Ingress {
				for _, p := range rule.Ports {
					open[p.Port.StrVal] = true
				}
			}
			if !maps.Equal(open, ports) {
				t.Errorf("%s opens %v, and there are %v", m, open, ports)
			}
		case *autoscaling.HorizontalPodAutoscaler:
			if o.Spec.ScaleTargetRef.Name != w.name {
				t.Errorf("%s scales %s", m, o.Spec.ScaleTargetRef.Name)
			}
			for _, metric := range o.Spec.Metrics {
				checkSeries(t, m.String(), metric.Pods.Metric.Name)
			}
		case *monitoring.PodMonitor:
			w.selects(t, m.String(), &o.Spec.Selector)
			for _, e := range o.Spec.PodMetricsEndpoints {
				if e.Port == nil || !ports[*e.Port] {
					t.Errorf("%s: no container port %v", m, e.Port)
				}
			}
		case *monitoring.ServiceMonitor:
			checkServiceMonitor(t, o, all)
		case *core.ConfigMap:
			if text, ok := o.Data["relay.yaml"]; ok {
				checkConfig(t, text, w.pod.Spec)
			}
		case *core.ServiceAccount:
			if o.Name != w.pod.Spec.ServiceAccountName {
				t.Errorf("the pods run as %s, and not as %s", w.pod.Spec.ServiceAccountName, o.Name)
			}
		}
	}
}

// checkServiceMonitor holds that exactly one Service has the labels that the monitor selects
// by, and that it has the ports.
func checkServiceMonitor(t *testing.T, monitor *monitoring.ServiceMonitor, all []manifest) {
	t.Helper()
	selector, err := meta.LabelSelectorAsSelector(&monitor.Spec.Selector)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range all {
		s, ok := m.object.(*core.Service)
		if !ok || !selector.Matches(labels.Set(s.Labels)) {
			continue
		}
		found++
		for _, e := range monitor.Spec.Endpoints {
			if !slices.ContainsFunc(s.Spec.Ports, func(p core.ServicePort) bool { return p.Name == e.Port }) {
				t.Errorf("%s has no port %s", m, e.Port)
			}
		}
	}
	if found != 1 {
		t.Errorf("the ServiceMonitor selects %d Services", found)
	}
}

// selects holds that a selector chooses the pods.
func (w workload) selects(t *testing.T, who string, s *meta.LabelSelector) {
	t.Helper()
	selector, err := meta.LabelSelectorAsSelector(s)
	if err != nil || selector.Empty() || !selector.Matches(labels.Set(w.pod.Labels)) {
		t.Errorf("%s selects %v (%v), and the pods have %v", who, selector, err, w.pod.Labels)
	}
}

// checkRestricted holds the restricted Pod Security Standard, that root file systems are
// read-only, and that pods have no access to the API of Kubernetes.
func checkRestricted(t *testing.T, spec core.PodSpec) {
	t.Helper()
	p := spec.SecurityContext
	if p == nil || p.RunAsNonRoot == nil || !*p.RunAsNonRoot || p.RunAsUser != nil && *p.RunAsUser != 65532 || p.SeccompProfile == nil || p.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod's security context is %v", p)
	}
	if spec.HostNetwork || spec.HostPID || spec.HostIPC || spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		t.Error("the pod gets more of its machine or of Kubernetes than it needs")
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		s := c.SecurityContext
		if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
			s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
			t.Errorf("the security context of %s is %v", c.Name, s)
		}
		for _, port := range c.Ports {
			if port.HostPort != 0 {
				t.Errorf("%s takes port %d of its machine", c.Name, port.HostPort)
			}
		}
		if c.Resources.Requests.Cpu().IsZero() || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s has no bounds: %v", c.Name, c.Resources)
		}
	}
	for _, v := range spec.Volumes {
		if v.HostPath != nil {
			t.Errorf("volume %s is a path of the machine", v.Name)
		}
	}
}

func checkProbes(t *testing.T, c core.Container, ports map[string]bool) {
	t.Helper()
	for name, want := range map[string]struct {
		probe *core.Probe
		path  string
	}{"startup": {c.StartupProbe, "/healthz"}, "liveness": {c.LivenessProbe, "/healthz"}, "readiness": {c.ReadinessProbe, "/readyz"}} {
		if p := want.probe; p == nil || p.HTTPGet == nil || p.HTTPGet.Path != want.path || !ports[p.HTTPGet.Port.StrVal] {
			t.Errorf("the %s probe is %v", name, p)
		}
	}
}

func checkMounts(t *testing.T, spec core.PodSpec) {
	t.Helper()
	volumes := map[string]bool{}
	for _, v := range spec.Volumes {
		if volumes[v.Name] {
			t.Errorf("volume %s is there twice", v.Name)
		}
		volumes[v.Name] = false
		if v.Secret != nil && (v.Secret.DefaultMode == nil || *v.Secret.DefaultMode != 0o440) {
			t.Errorf("the Secret in %s can be read by all: %v", v.Name, v.Secret.DefaultMode)
		}
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, m := range c.VolumeMounts {
			if _, ok := volumes[m.Name]; !ok {
				t.Errorf("there is no volume %s", m.Name)
			}
			volumes[m.Name] = true
			if !m.ReadOnly && c.Name != "fetch" {
				t.Errorf("%s can be written by %s", m.Name, c.Name)
			}
		}
	}
	for name, used := range volumes {
		if !used {
			t.Errorf("volume %s is not mounted", name)
		}
	}
}

// isMounted tells whether a file is where the pod has something mounted.
func isMounted(spec core.PodSpec, file string) bool {
	return slices.ContainsFunc(spec.Containers[0].VolumeMounts, func(m core.VolumeMount) bool {
		return file == m.MountPath || strings.HasPrefix(file, m.MountPath+"/")
	})
}
