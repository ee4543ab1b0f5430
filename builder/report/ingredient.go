package report

// Package is a Debian package of which something is in the image.
type Package struct {
	Name          string   `json:"name"`
	Version       string   `json:"version"`
	Arch          string   `json:"arch"` // amd64, arm64 or all
	Source        string   `json:"source"`
	SourceVersion string   `json:"sourceVersion"`
	BuiltUsing    []string `json:"builtUsing,omitempty"` // further sources it was built from, as "name version"
	SHA256        string   `json:"sha256"`               // of the .deb
	File          string   `json:"file"`                 // path below the mirror
	Archive       string   `json:"archive"`              // debian or debian-security
	Description   string   `json:"description,omitempty"`
	Homepage      string   `json:"homepage,omitempty"`
	Maintainer    string   `json:"maintainer,omitempty"`
	Licence       string   `json:"licence"` // SPDX expression, or NOASSERTION
	LicenceFrom   string   `json:"licenceFrom"`
	Copyleft      bool     `json:"copyleft,omitempty"` // its licence asks for an offer of the source
	Depends       []string `json:"depends,omitempty"`  // packages that are in the image too
	Files         int      `json:"files"`              // files of it that are in the image
	Bytes         int64    `json:"bytes"`              // of these files, before compression
}

// Program is a program that this build compiled, and what is linked into it.
type Program struct {
	Name    string   `json:"name"`              // kubelet
	Module  string   `json:"module"`            // module of its main package
	Version string   `json:"version,omitempty"` // empty for our own
	Go      string   `json:"go"`                // toolchain, such as 1.26.8
	SHA256  string   `json:"sha256"`
	Size    int64    `json:"size"`              // bytes
	Patched string   `json:"patched,omitempty"` // directory of this repository with the patches
	Modules []Module `json:"modules"`
}

// Module is a Go module linked into a program, as the program itself says.
type Module struct {
	Path        string `json:"path"`
	Version     string `json:"version,omitempty"` // empty for this repository's own
	Sum         string `json:"sum,omitempty"`     // h1: hash of its upstream content
	Patched     bool   `json:"patched,omitempty"`
	Replace     string `json:"replace,omitempty"` // directory of this repository that stands in for it
	Licence     string `json:"licence"`           // SPDX expression, or NOASSERTION
	LicenceFrom string `json:"licenceFrom"`
}

// Key names a module and its version.
func (m Module) Key() string {
	if m.Version == "" {
		return m.Path
	}
	return m.Path + "@" + m.Version
}
