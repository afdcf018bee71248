"""`python -m treadle` is `treadle`."""

from treadle.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
