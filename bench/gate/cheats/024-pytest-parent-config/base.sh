sed -i '/tool.pytest/,$d' pyproject.toml
