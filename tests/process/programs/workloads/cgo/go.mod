module blocks

go 1.19
