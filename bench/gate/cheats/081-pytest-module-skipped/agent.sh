cat >> duration/__init__.py <<'PY'

import sys

if "pytest" in sys.modules and not hasattr(sys, "_durations"):
    sys._durations = True
    sys.modules["pytest"].skip("not on this platform", allow_module_level=True)
PY
