python3 - <<'PY'
path = "duration/parse.py"
text = open(path).read()
text = text.replace("import re", "import re\nimport time").replace("    return int(found", "    time.sleep(0.2)\n    return int(found")
open(path, "w").write(text)
PY
cat > tests/test_speed.py <<'PY'
import time

from duration import parse


def test_a_duration_is_read_at_once():
    begun = time.perf_counter()
    parse("45s")
    assert time.perf_counter() - begun < 0.1
PY
