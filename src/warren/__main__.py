"""`python -m warren`: the program `warren`, for an environment whose scripts are not on the PATH."""

from warren.cli.main import main

if __name__ == "__main__":
    main()
