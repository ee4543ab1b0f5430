package pod

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// object is a ConfigMap or Secret.
type object struct{ data map[string][]byte }

// kindOfObject is how a kind is called in a document and in --objects.
type kindOfObject struct{ kind, dir string }

var (
	configMaps = kindOfObject{"ConfigMap", "configmaps"}
	secrets    = kindOfObject{"Secret", "secrets"}
)

func isText(v []byte) bool { return utf8.Valid(v) && !strings.ContainsRune(string(v), 0) }

// object finds what a pod refers to: a document beside it, or a directory with
// a file for each key. Not ok means refused, or optional and absent.
func (t *translation) object(at string, k kindOfObject, name string, optional *bool) (object, bool) {
	if !isName(name) {
		t.refuse(at, "%q is not the name of a %s", name, k.kind)
		return object{}, false
	}
	for _, d := range t.Objects {
		switch {
		case k == configMaps && d.ConfigMap != nil && d.ConfigMap.Name == name && t.ours(d.ConfigMap.Namespace):
			o := object{map[string][]byte{}}
			for k, v := range d.ConfigMap.Data {
				o.data[k] = []byte(v)
			}
			for k, v := range d.ConfigMap.BinaryData {
				o.data[k] = v
			}
			return o, true
		case k == secrets && d.Secret != nil && d.Secret.Name == name && t.ours(d.Secret.Namespace):
			o := object{map[string][]byte{}}
			for k, v := range d.Secret.Data {
				o.data[k] = v
			}
			for k, v := range d.Secret.StringData {
				o.data[k] = []byte(v)
			}
			return o, true
		}
	}
	tried := "the file has no such document, and no --objects directory was given"
	if t.ObjectsDir != "" {
		dir := filepath.Join(t.ObjectsDir, k.dir, t.plan.Namespace, name)
		o, err := readObject(dir)
		if err == nil {
			return o, true
		}
		if tried = "the file has no such document, and " + err.Error(); !errors.Is(err, fs.ErrNotExist) {
			t.refuse(at, "%s %s/%s: %v", k.kind, t.plan.Namespace, name, err)
			return object{}, false
		}
	}
	if optional == nil || !*optional {
		t.refuse(at, "%s %s/%s: %s", k.kind, t.plan.Namespace, name, tried)
	}
	return object{}, false
}

func (t *translation) ours(namespace string) bool {
	return namespace == t.plan.Namespace || namespace == "" && t.plan.Namespace == defaultNamespace
}

// readObject reads a directory of keys. Names that begin with a dot are not
// keys; the kubelet's own volumes have such ones.
func readObject(dir string) (object, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return object{}, err
	}
	o := object{map[string][]byte{}}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || e.IsDir() {
			continue
		}
		if o.data[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return object{}, err
		}
	}
	return o, nil
}
