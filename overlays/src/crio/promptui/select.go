// Package promptui stands in for github.com/manifoldco/promptui, with which
// cri-o's image library asks at a terminal which of several registries a short
// image name means. A daemon has no terminal, and the library does not ask
// without one; the real package would only bring its templates and line editor.
package promptui

import "fmt"

// Select is a question with a list of answers.
type Select struct {
	Label    any
	Items    any
	HideHelp bool
}

// Run asks nobody and says so.
func (s *Select) Run() (int, string, error) {
	return 0, "", fmt.Errorf("%v: %v: this program does not ask; give the image's full name", s.Label, s.Items)
}
