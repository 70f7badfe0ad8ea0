from hakmem.cli import main

main()
