package supervise

import (
	"testing"

	"garboard.local/init/table"
)

// The end of the run before the last one stays readable too.
func TestPreviousEnd(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir := t.TempDir()
	s := sh("a", "", "test -e "+dir+"/2 && exit 0; test -e "+dir+"/1 && { touch "+dir+"/2; exit 2; }; touch "+dir+"/1; exit 1")
	s.Restart = table.RestartOnFailure
	v, _ := supervisor(t, s)
	v.Start("a")
	state(t, v, "a", Ended)
	st := v.Status()[0]
	if st.Last == nil || st.Last.Code != 0 || st.Previous == nil || st.Previous.Code != 2 || st.Restarts != 2 || st.Previous.Finished.After(st.Last.Started) {
		t.Errorf("last %+v, previous %+v, %d restarts", st.Last, st.Previous, st.Restarts)
	}
}
