package builder

import (
	"slices"
	"testing"
)

func TestToolEnvKeepsTheUsersAway(t *testing.T) {
	got := toolEnv([]string{"PATH=/bin", "SOURCE_DATE_EPOCH=1", "TZ=Asia/Tokyo", "LC_ALL=tr_TR.UTF-8", "LANG=de", "LD_PRELOAD=x", "TMPDIR=/t", "MKE2FS_CONFIG=/x", "odd"})
	if want := []string{"LC_ALL=C", "TZ=UTC", "PATH=/bin", "TMPDIR=/t"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
