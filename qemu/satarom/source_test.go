package satarom

import (
	"strings"
	"testing"
)

func TestNeeded(t *testing.T) {
	for p, want := range map[string]bool{
		"MdePkg/Include/Uefi.h":                              true,
		"MdePkg/Library/BaseLib/LinkedList.c":                true,
		"MdePkg/Library/BaseLib/X64/Cpu.nasm":                false,
		"MdePkg/MdePkg.dec":                                  true,
		"MdeModulePkg/MdeModulePkg.dec":                      true,
		"MdeModulePkg/Include/Protocol/AtaAtapiPolicy.h":     true,
		"MdeModulePkg/Bus/Ata/AtaAtapiPassThru/AhciMode.c":   true,
		"MdeModulePkg/Bus/Ata/AtaAtapiPassThruOther/Other.c": false,
		"MdeModulePkg/Bus/Pci/SataControllerDxe/Other.uni":   false,
		"CryptoPkg/Library/OpensslLib/openssl/crypto/x509.c": false,
	} {
		if needed(p) != want {
			t.Errorf("%s: %t", p, !want)
		}
	}
}

func TestGUIDs(t *testing.T) {
	got := string(guids([]byte(`
[Guids]
  ## Include/Guid/A.h
  gAGuid = { 0x1, 0x2, 0x3, { 0x4, 0x5 }}
[Ppis]
[Protocols]
	gBGuid={0xa,0xB}
  gAGuid = { 0x9 } # again
# gCGuid = { 0x1 }
  gNoGUID = { 0x1 }
[PcdsFixedAtBuild]
  gTokenSpaceGuid.PcdX|5|UINT32|0x32
`)))
	if got != "#include <Uefi.h>\nEFI_GUID gAGuid = { 0x1, 0x2, 0x3, { 0x4, 0x5 }};\nEFI_GUID gBGuid = {0xa,0xB};\n" {
		t.Error(strings.TrimSpace(got))
	}
}

func TestSource(t *testing.T) {
	if src, err := Source(); err != nil || src.Name != "edk2_2025.02.orig.tar.xz" {
		t.Error(src, err)
	}
}
