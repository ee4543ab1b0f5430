package kernel

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"
	"strings"
)

// Firmware is a file that a driver may ask for.
type Firmware struct {
	Name   string `json:"name"` // below /usr/lib/firmware; may hold wildcards
	Driver string `json:"driver"`
}

// firmware lists what the modules of the image, and the drivers built into the
// kernel, declare that they ask for (MODULE_FIRMWARE), by name.
func (k *Kernel) firmware() ([]Firmware, error) {
	by := map[string]string{}
	for _, m := range k.Modules {
		info, err := modinfo(k.File(m.File))
		if err != nil {
			return nil, fmt.Errorf("module %s: %w", m.Name, err)
		}
		for _, f := range declared(info, "") {
			if by[f] == "" {
				by[f] = m.Name
			}
		}
	}
	// "module.key=value", each ended by a zero (Documentation/kbuild/kbuild.rst).
	b, err := os.ReadFile(k.File("modules.builtin.modinfo"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, f := range declared(b, ".") {
		if by[f] == "" {
			by[f] = "a driver in the kernel"
		}
	}
	var out []Firmware
	for f, m := range by {
		out = append(out, Firmware{f, m})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// declared lists the values of firmware= in a list of strings ended by zeros; sep
// is what stands between a module's name and the key, "" where there is no name.
func declared(info []byte, sep string) []string {
	var out []string
	for _, s := range bytes.Split(info, []byte{0}) {
		key, value, ok := strings.Cut(string(s), "=")
		if sep != "" {
			_, key, _ = strings.Cut(key, sep)
		}
		if ok && key == "firmware" && fs.ValidPath(value) {
			out = append(out, value)
		}
	}
	return out
}

// modinfo is the section .modinfo of a module.
func modinfo(file string) (b []byte, err error) {
	defer func() { // debug/elf has had panics on damaged files
		if v := recover(); v != nil {
			err = fmt.Errorf("no ELF file: %v", v)
		}
	}()
	f, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := f.Section(".modinfo")
	if s == nil {
		return nil, errors.New("it has no section .modinfo: it is no kernel module")
	}
	return s.Data()
}
