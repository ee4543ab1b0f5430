package builder

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// NetbootName is the artefact that has iPXE boot a node over the network.
const NetbootName = "boot.ipxe"

// netboot writes the script into the store.
func (b *build) netboot() (outFile, error) {
	script, err := ipxeScript(b.recipe.Name, b.arch, b.kernelWords())
	if err != nil {
		return outFile{}, err
	}
	sum, _, err := b.Store.Put(bytes.NewReader(script))
	return outFile{NetbootName, b.Store.Blob(sum)}, err
}

// kernelWords is the command line: that of the kernel's maker, then the recipe's,
// so that the latter's words win.
func (b *build) kernelWords(more ...string) []string {
	return slices.Concat(strings.Fields(b.kernel.Cmdline), b.recipe.Cmdline, more)
}

// ipxeScript is a script for iPXE (https://ipxe.org/scripting) that fetches what
// lies beside it and boots it. Kernel and initramfs are looked for under the names
// that a build gives them, then under those of a release. It works under BIOS and
// UEFI: an EFI kernel takes the initramfs by the name after initrd= where iPXE is too
// old to offer it all archives by itself.
func ipxeScript(recipe, arch string, cmdline []string) ([]byte, error) {
	for _, w := range cmdline {
		// iPXE knows no quoting (src/core/exec.c).
		for part := range strings.FieldsSeq(w) {
			if part == "||" || part == "&&" || part == ";" || strings.HasPrefix(part, "#") || strings.Contains(part, "${") {
				return nil, fmt.Errorf("%s: the word %q of the kernel's command line has a meaning to iPXE, which cannot be told to take it as it is; leave it out of cmdline, or leave out the output initramfs", NetbootName, part)
			}
		}
	}
	image := recipe + "-" + arch
	wrong := "iseq ${buildarch} arm64 && goto wrong ||"
	if arch == "arm64" {
		wrong = "iseq ${buildarch} arm64 || goto wrong"
	}
	words := strings.Join(append([]string{"initrd=" + InitramfsName}, cmdline...), " ")
	var s bytes.Buffer
	for _, line := range []string{
		"#!ipxe",
		"# Boots the image " + recipe + " for " + arch + " over the network. Names are relative to this script's own address.",
		"",
		wrong,
		fmt.Sprintf("kernel --name %s %s %s || kernel --name %s %s.%s %s || goto failed", KernelName, KernelName, words, KernelName, image, KernelName, words),
		fmt.Sprintf("initrd --name %s %s || initrd --name %s %s.%s || goto failed", InitramfsName, InitramfsName, InitramfsName, image, InitramfsName),
		"# Files for this machine, laid over the image's /etc: an archive, or one file.",
		"# initrd edge-7.cpio.gz || goto failed",
		"# initrd edge-7.hostname /etc/hostname mode=644 mkdir=-1 || goto failed",
		"boot || goto failed",
		"",
		":wrong",
		"echo This is the image " + recipe + " for " + arch + ", and the machine is another (iPXE for ${buildarch})",
		"exit 1",
		"",
		":failed",
		"echo " + NetbootName + " of " + recipe + " for " + arch + ": not booted, the lines above say why",
		"exit 1",
	} {
		s.WriteString(line + "\n")
	}
	return s.Bytes(), nil
}
