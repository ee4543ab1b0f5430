module github.com/manifoldco/promptui

go 1.22
