package licence

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// File is a licence file of a module.
type File struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

var fileName = regexp.MustCompile(`^(?i)(un)?licen[cs]e([-._].*)?$|^(?i)copying([-._].*)?$|^(?i)notice([-._].*)?$|^(?i)copyright([-._].*)?$|^(?i)patents$`)

// licenceName is a file that holds terms and nothing else.
var licenceName = regexp.MustCompile(`^(?i)(un)?(licen[cs]e|copying)`)

// limit is the largest licence file that is read, in bytes.
const limit = 1 << 20

// Files are the licence files at the top of a module's source, by name.
func Files(source fs.FS) ([]File, error) {
	entries, err := fs.ReadDir(source, ".")
	if err != nil {
		return nil, err
	}
	var out []File
	for _, e := range entries {
		if !e.Type().IsRegular() || !fileName.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		if fi, err := e.Info(); err != nil {
			return nil, err
		} else if fi.Size() > limit {
			return nil, fmt.Errorf("%s has %d bytes, more than any licence", e.Name(), fi.Size())
		}
		b, err := fs.ReadFile(source, e.Name())
		if err != nil {
			return nil, err
		}
		out = append(out, File{Name: e.Name(), Text: string(b)})
	}
	slices.SortFunc(out, func(a, b File) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out, nil
}

// enough is the share of a file's words, in percent, that must belong to known
// licences; what remains are copyright lines and headings. A file with less has
// terms that the detector does not know.
const enough = 50

// Module says under which licences a module stands, by its licence files. A
// file called NOTICE or COPYRIGHT adds what it recognisably holds, and is no
// licence of its own where it holds none; a grant of patents adds no condition.
func Module(files []File) Finding {
	var terms []string
	for _, f := range files {
		if strings.EqualFold(f.Name, "patents") {
			continue
		}
		c := licensecheck.Scan([]byte(f.Text))
		var found []string
		for _, m := range c.Match {
			if !m.IsURL {
				found = append(found, known(m.ID))
			}
		}
		terms = append(terms, found...)
		if (len(found) == 0 || c.Percent < enough) && licenceName.MatchString(f.Name) {
			terms = append(terms, ref(f.Name))
		}
	}
	return finding(ModuleFiles, terms)
}
