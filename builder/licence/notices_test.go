package licence

import (
	"bytes"
	"strings"
	"testing"
)

func TestNoticesKeepEachTextOnceInOneOrder(t *testing.T) {
	add := [][2]string{{"b", "terms\nof use\n"}, {"a", "terms\r\nof use"}, {"c", "others"}, {"c", "terms\nof use\n\n"}, {"d", " \n"}, {"a", "terms\nof use"}}
	var first, second Notices
	for i := range add {
		first.Add(add[i][0], add[i][1])
		second.Add(add[len(add)-1-i][0], add[len(add)-1-i][1])
	}
	got := first.Text()
	if !bytes.Equal(got, second.Text()) {
		t.Errorf("the order of additions shows:\n%s\n%s", got, second.Text())
	}
	s := string(got)
	if n := strings.Count(s, "terms\nof use\n"); n != 1 {
		t.Errorf("the text is there %d times, want once:\n%s", n, s)
	}
	if !strings.Contains(s, "\na\nb\nc\n==") || !strings.Contains(s, "No licence file comes with:\nd\n") {
		t.Errorf("names are missing:\n%s", s)
	}
	if len(first.Texts()) != 2 {
		t.Errorf("%d texts, want 2", len(first.Texts()))
	}
}
