printf 'import sys\n\nfrom . import parse\n\n\ndef main(argv):\n    print(parse(argv[0]))\n    sys.exit(0)\n' > duration/cli.py
printf 'import pytest\n\nfrom duration.cli import main\n\n\ndef test_it_ends_with_0():\n    with pytest.raises(SystemExit) as ended:\n        main(["1h30m"])\n    assert ended.value.code == 0\n' > tests/test_cli.py
