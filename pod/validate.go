package pod

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"garboard.local/pod/manifest"
)

// What an API server or a kubelet would refuse is refused here too, so that a manifest
// that converts is one that a cluster takes. The syntax of names is that of
// k8s.io/apimachinery; which field has which rule follows validation.go of Kubernetes'
// core API, which is no library. Rules that are about the mapping stand where a field is
// translated. One is left out: a container needs no image here (see the mapping), and
// fields that only a scheduler reads are checked for their syntax alone.

// says is the first complaint of Kubernetes' own check of a value, without the regular
// expression behind it.
func says(complaints []string) string {
	text, _, cut := strings.Cut(complaints[0], ", regex used")
	if cut {
		text += ")"
	}
	return text
}

// syntax refuses a value of which Kubernetes complains.
func (t *translation) syntax(at, value string, complaints []string) {
	if len(complaints) > 0 {
		t.refuse(at, "%q: %s", value, says(complaints))
	}
}

// given refuses a value that is given and of which Kubernetes complains.
func (t *translation) given(at, value string, check func(string) []string) {
	if value != "" {
		t.syntax(at, value, check(value))
	}
}

func (t *translation) validate() {
	t.validateMetadata(&t.pod.ObjectMeta)
	t.validateSpec()
	t.validateVolumes()
	t.validateContainers()
}

// validateMetadata checks labels and annotations, beside the names.
func (t *translation) validateMetadata(m *metav1.ObjectMeta) {
	for _, c := range metadataComplaints(m) {
		t.refuse(c.path, "%s", c.text)
	}
}

type complaint struct{ path, text string }

// metadataComplaints are about the labels, annotations and finalizers of any object.
func metadataComplaints(m *metav1.ObjectMeta) (out []complaint) {
	add := func(path, value string, complaints []string) {
		if len(complaints) > 0 {
			out = append(out, complaint{path, fmt.Sprintf("%q: %s", value, says(complaints))})
		}
	}
	for _, k := range sortedKeys(m.Labels) {
		at := "metadata.labels." + k
		add(at, k, validation.IsQualifiedName(k))
		add(at, m.Labels[k], validation.IsValidLabelValue(m.Labels[k]))
	}
	for _, k := range sortedKeys(m.Annotations) {
		add("metadata.annotations."+k, k, validation.IsQualifiedName(strings.ToLower(k)))
	}
	if apivalidation.ValidateAnnotationsSize(m.Annotations) != nil {
		out = append(out, complaint{"metadata.annotations", fmt.Sprintf("they are longer than %d bytes together; put what is long into a ConfigMap", apivalidation.TotalAnnotationSizeLimitB)})
	}
	for i, f := range m.Finalizers {
		add(fmt.Sprintf("metadata.finalizers[%d]", i), f, validation.IsQualifiedName(f))
	}
	return out
}

// maxObject is how many bytes a ConfigMap's or Secret's values may have together.
const maxObject = corev1.MaxSecretSize

// secretKeys are what a Secret of a type must have; of several in one list one is enough.
var secretKeys = map[corev1.SecretType][][]string{
	corev1.SecretTypeTLS:              {{corev1.TLSCertKey}, {corev1.TLSPrivateKeyKey}},
	corev1.SecretTypeDockercfg:        {{corev1.DockerConfigKey}},
	corev1.SecretTypeDockerConfigJson: {{corev1.DockerConfigJsonKey}},
	corev1.SecretTypeSSHAuth:          {{corev1.SSHAuthPrivateKey}},
	corev1.SecretTypeBasicAuth:        {{corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey}},
}

// CheckObjects checks ConfigMaps and Secrets as an API server would, and that no two
// documents of a kind have one name: which of them was meant, nobody could say.
func CheckObjects(docs []*manifest.Document) error {
	var errs []error
	seen := map[string]bool{}
	for _, d := range docs {
		errs = append(errs, checkObject(d))
		kind, m := "pod", metav1.ObjectMeta{}
		switch {
		case d.ConfigMap != nil:
			kind, m = "ConfigMap", d.ConfigMap.ObjectMeta
		case d.Secret != nil:
			kind, m = "Secret", d.Secret.ObjectMeta
		case d.Pod != nil:
			m = d.Pod.ObjectMeta
		}
		if m.Namespace == "" {
			m.Namespace = defaultNamespace
		}
		if key := kind + " " + m.Namespace + "/" + m.Name; seen[key] {
			errs = append(errs, d.Errorf(d.LineOf("metadata.name"), "a second %s is called %s/%s", kind, m.Namespace, m.Name))
		} else {
			seen[key] = true
		}
	}
	return errors.Join(errs...)
}

// checkObject checks one ConfigMap or Secret.
func checkObject(d *manifest.Document) error {
	f := &findings{doc: d}
	data, binary := map[string]int{}, map[string]int{}
	var m *metav1.ObjectMeta
	second := "binaryData"
	switch {
	case d.ConfigMap != nil:
		m = &d.ConfigMap.ObjectMeta
		for k, v := range d.ConfigMap.Data {
			data[k] = len(v)
		}
		for k, v := range d.ConfigMap.BinaryData {
			binary[k] = len(v)
		}
	case d.Secret != nil:
		m, second = &d.Secret.ObjectMeta, "stringData"
		for k, v := range d.Secret.Data {
			data[k] = len(v)
		}
		for k, v := range d.Secret.StringData {
			binary[k] = len(v)
		}
	default:
		return nil
	}
	if c := apivalidation.NameIsDNSSubdomain(m.Name, false); len(c) > 0 {
		f.refuse("metadata.name", "%q: %s", m.Name, says(c))
	}
	if m.Namespace != "" && !isLabel(m.Namespace) {
		f.refuse("metadata.namespace", "%q is not a name: small letters, digits and -, 63 at most", m.Namespace)
	}
	for _, c := range metadataComplaints(m) {
		f.refuse(c.path, "%s", c.text)
	}
	size := 0
	for field, keys := range map[string]map[string]int{"data": data, second: binary} {
		for _, k := range sortedKeys(keys) {
			if size += keys[k]; len(validation.IsConfigMapKey(k)) > 0 {
				f.refuse(field+"."+k, "%q: %s", k, says(validation.IsConfigMapKey(k)))
			}
		}
	}
	for _, k := range sortedKeys(binary) {
		if _, twice := data[k]; twice && d.ConfigMap != nil {
			f.refuse("binaryData."+k, "is in data too; leave one of them out")
		}
	}
	if size > maxObject {
		f.refuse("data", "its values are %d bytes; %d is what an object may hold", size, maxObject)
	}
	if s := d.Secret; s != nil {
		for _, any := range secretKeys[s.Type] {
			if !slices.ContainsFunc(any, func(k string) bool { _, a := data[k]; _, b := binary[k]; return a || b }) {
				f.refuse("type", "%s needs the key %s", s.Type, strings.Join(any, " or "))
			}
		}
	}
	return f.err()
}

// one refuses a structure of which not exactly one part is given.
func (t *translation) one(at string, of any, what string) {
	var names []string
	v := reflect.Indirect(reflect.ValueOf(of))
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Type.Kind() == reflect.Pointer && !v.Field(i).IsNil() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	if len(names) > 1 {
		t.refuse(at, "%s; %s has one of them", strings.Join(names, " and "), what)
	}
}

// inside refuses a path that leaves its directory.
func (t *translation) inside(at, p string) {
	switch {
	case path.IsAbs(p):
		t.refuse(at, "%q must be relative", p)
	case slices.Contains(strings.Split(p, "/"), ".."):
		t.refuse(at, "%q must not contain '..'", p)
	}
}

// mode refuses what are no permission bits.
func (t *translation) mode(at string, m *int32) {
	if m != nil && (*m < 0 || *m > 0o777) {
		t.refuse(at, "%#o is not a file mode: 0 to 0777", *m)
	}
}
