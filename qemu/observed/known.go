package observed

// Known are the differences that stay, with their reasons.
var Known = []Difference{}
