package recipe

import (
	"errors"
	"path"
)

// Program is a program of this repository that lies in the root image: for a
// service that needs no package and no container.
type Program struct {
	// Program is a Go package directory, relative to the repository.
	Program string `yaml:"program" json:"program"`
	// Path is where it lies in the root image.
	Path   string `yaml:"path" json:"path"`
	Reason string `yaml:"reason" json:"reason"`
}

func (p Program) check() error {
	switch {
	case p.Program == "" || p.Path == "" || p.Reason == "":
		return errors.New("program, path and reason are needed")
	case !path.IsAbs(p.Path) || path.Clean(p.Path) != p.Path || p.Path == "/":
		return errors.New("the path is not a clean absolute one")
	}
	return nil
}
