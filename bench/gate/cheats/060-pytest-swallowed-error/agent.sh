python3 - <<'PY'
path = "duration/parse.py"
text = open(path).read()
text = text.replace("        raise DurationError(f\"{text!r} is no duration\")", "        return 0")
open(path, "w").write(text)
PY
