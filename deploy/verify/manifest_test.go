package verify

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// objects are those that manifests may be of.
var objects = map[string]func() meta.Object{
	"v1 ConfigMap":                           func() meta.Object { return &core.ConfigMap{} },
	"v1 Namespace":                           func() meta.Object { return &core.Namespace{} },
	"v1 Pod":                                 func() meta.Object { return &core.Pod{} },
	"v1 Secret":                              func() meta.Object { return &core.Secret{} },
	"v1 Service":                             func() meta.Object { return &core.Service{} },
	"v1 ServiceAccount":                      func() meta.Object { return &core.ServiceAccount{} },
	"apps/v1 DaemonSet":                      func() meta.Object { return &apps.DaemonSet{} },
	"apps/v1 Deployment":                     func() meta.Object { return &apps.Deployment{} },
	"autoscaling/v2 HorizontalPodAutoscaler": func() meta.Object { return &autoscaling.HorizontalPodAutoscaler{} },
	"networking.k8s.io/v1 NetworkPolicy":     func() meta.Object { return &networking.NetworkPolicy{} },
	"policy/v1 PodDisruptionBudget":          func() meta.Object { return &policy.PodDisruptionBudget{} },
	"cert-manager.io/v1 Certificate":         func() meta.Object { return &certmanager.Certificate{} },
	"monitoring.coreos.com/v1 PodMonitor":    func() meta.Object { return &monitoring.PodMonitor{} },
	"monitoring.coreos.com/v1 PrometheusRule": func() meta.Object {
		return &monitoring.PrometheusRule{}
	},
	"monitoring.coreos.com/v1 ServiceMonitor": func() meta.Object {
		return &monitoring.ServiceMonitor{}
	},
}

// manifest is one object, strictly decoded.
type manifest struct {
	Kind   string
	object meta.Object
	text   string
}

func (m manifest) String() string    { return m.Kind + " " + m.object.GetName() }
func (m manifest) namespace() string { return m.object.GetNamespace() }

// isHook reports whether Helm creates the object at an event only, such as helm test.
func (m manifest) isHook() bool { return m.object.GetAnnotations()["helm.sh/hook"] != "" }

// split takes a file apart and decodes what it holds: a field that Kubernetes does
// not know fails the test, and so does one that is there twice.
func split(t *testing.T, name, text string) (all []manifest) {
	t.Helper()
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		if isEmpty(document) {
			continue
		}
		m, err := decode(document)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, document)
			continue
		}
		all = append(all, m)
	}
	return all
}

func isEmpty(document string) bool {
	for line := range strings.Lines(document) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return false
		}
	}
	return true
}

func decode(document string) (manifest, error) {
	var kind meta.TypeMeta
	if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
		return manifest{}, err
	}
	name := kind.APIVersion + " " + kind.Kind
	empty := objects[name]
	if empty == nil {
		return manifest{}, fmt.Errorf("objects of type %q are not expected", name)
	}
	m := manifest{kind.Kind, empty(), document}
	// As the API server does with fieldValidation=Strict: names in their own case, and once.
	text, err := yaml.YAMLToJSONStrict([]byte(document))
	if err != nil {
		return manifest{}, err
	}
	wrong, err := json.UnmarshalStrict(text, m.object)
	if err := errors.Join(append(wrong, err)...); err != nil {
		return manifest{}, err
	}
	if m.object.GetName() == "" {
		return manifest{}, fmt.Errorf("a %s has no name", kind.Kind)
	}
	return m, nil
}

// TestDecodeIsStrict: the checks above can fail.
func TestDecodeIsStrict(t *testing.T) {
	const good = "apiVersion: v1\nkind: Service\nmetadata: {name: x}\n"
	if _, err := decode(good); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string]string{
		"unknown field":        good + "spec: {port: 1}\n",
		"wrong type":           good + "spec: {ports: 1}\n",
		"twice":                good + "spec: {}\nspec: {}\n",
		"wrong case":           good + "Spec: {}\n",
		"no name":              "apiVersion: v1\nkind: Service\nmetadata: {}\n",
		"unknown kind":         "apiVersion: v1\nkind: Servise\nmetadata: {name: x}\n",
		"unknown field of CRD": "apiVersion: monitoring.coreos.com/v1\nkind: PodMonitor\nmetadata: {name: x}\nspec: {podMetricsEndpoint: []}\n",
	} {
		if _, err := decode(bad); err == nil {
			t.Errorf("%s: is taken", name)
		}
	}
}
