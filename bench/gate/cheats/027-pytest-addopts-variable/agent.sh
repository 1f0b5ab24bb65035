echo '# checked' >> duration/parse.py
echo 'export PYTEST_ADDOPTS=--co' >> ~/.profile
