package data

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDrivers(t *testing.T) {
	m := newMachine(t)
	for f, s := range map[string]string{
		"bus/virtio/devices/virtio0/modalias":   "virtio:d00000001v00001AF4", // network
		"bus/virtio/devices/virtio1/modalias":   "virtio:d00000002v00001AF4",
		"bus/virtio/devices/virtio2/modalias":   "virtio:d00000002v00001AF4",
		"bus/pci/devices/0000:00:1f.2/modalias": "pci:v00008086d00002922sv00001AF4sd00001100bc01sc06i01",
		"bus/pci/devices/0000:00:03.0/modalias": "pci:v000015ADd000007C0sv000015ADsd000007C0bc01sc07i00",
		"bus/pci/devices/0000:00:02.0/modalias": "pci:v00001AF4d00001000sv00001AF4sd00000001bc02sc00i00",
		"bus/scsi/devices/0:0:0:0/modalias":     "scsi:t-0x00",
		"bus/scsi/devices/0:0:0:0/driver/x":     "bound already",
		"bus/pci/devices/0000:00:1d.7/modalias": "pci:v00008086d0000293Asv00001AF4sd00001100bc0Csc03i20",
		"bus/usb/devices/1-1:1.0/modalias":      "usb:v46F4p0001d0000dc00dsc00dp00ic08isc06ip50in00",
		"bus/usb/devices/1-2:1.0/modalias":      "usb:v0627p0001d0000dc00dsc00dp00ic03isc01ip01in00", // keyboard
		"bus/mmc/devices/mmc0:0001/modalias":    "mmc:block",
	} {
		m.sysfile(f, s)
	}
	want := []string{"virtio:d00000002v00001AF4", "ahci", "pci:v000015ADd000007C0sv000015ADsd000007C0bc01sc07i00",
		"mmc:block", "pci:v00008086d0000293Asv00001AF4sd00001100bc0Csc03i20", "usb:v46F4p0001d0000dc00dsc00dp00ic08isc06ip50in00"}
	if got := drivers(m.Sys); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSerial(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"virtio": {map[string]string{"block/vda/serial": "V1"}, "V1"},
		"nvme":   {map[string]string{"block/vda/device/serial": "N1"}, "N1"},
		"scsi":   {map[string]string{"block/vda/device/vpd_pg80": "\x00\x80\x00\x06  S1  "}, "S1"},
		"usb stick": {map[string]string{"devices/usb1/1-1/serial": "U1", "devices/usb1/1-1/idVendor": "46f4", "devices/usb1/1-1/1-1:1.0/host2/target2:0:0/2:0:0:0/type": "0",
			"block/vda/device@": "devices/usb1/1-1/1-1:1.0/host2/target2:0:0/2:0:0:0"}, "U1"},
		"usb stick without": {map[string]string{"devices/usb1/1-1/idVendor": "46f4", "block/vda/device@": "devices/usb1/1-1"}, ""},
		"none":              {map[string]string{"block/vda/device/vpd_pg80": "\x00\x80\x00\x00"}, ""},
		"damaged":           {map[string]string{"block/vda/device/vpd_pg80": "\x00"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			for f, s := range c.files {
				if link, ok := strings.CutSuffix(f, "@"); ok {
					at := filepath.Join(m.Sys, link)
					if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.Symlink(filepath.Join(m.Sys, s), at); err != nil {
						t.Fatal(err)
					}
					continue
				}
				m.sysfile(f, s)
			}
			if got := serial(filepath.Join(m.Sys, "block/vda")); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestSeed(t *testing.T) {
	dir := t.TempDir()
	seed, random := filepath.Join(dir, "seed"), filepath.Join(dir, "random")
	if err := StirSeed(seed, random); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(random); err == nil {
		t.Error("something was mixed in though there was no seed")
	}
	first, err := os.ReadFile(seed)
	if err != nil || len(first) != seedBytes {
		t.Fatalf("%d bytes, %v", len(first), err)
	}
	if err := StirSeed(seed, random); err != nil {
		t.Fatal(err)
	}
	mixed, _ := os.ReadFile(random)
	second, _ := os.ReadFile(seed)
	if string(mixed) != string(first) || string(second) == string(first) {
		t.Error("the old seed is to be mixed in and replaced")
	}
	if st, err := os.Stat(seed); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

func TestUnitSerial(t *testing.T) {
	m := newMachine(t)
	for page, want := range map[string]string{
		"\x00\x80\x00\x08 LATE-4Kxx":   "LATE-4K", // what lies behind the length does not count
		"\x00\x80\x00\x06LATE\x00\x00": "LATE",
		"\x00\x83\x00\x04LATE":         "",
		"\x00\x80\x00":                 "",
	} {
		m.sysfile("block/sda/device/vpd_pg80", page)
		if got := serial(filepath.Join(m.Sys, "block/sda")); got != want {
			t.Errorf("%q: %q, want %q", page, got, want)
		}
	}
}
