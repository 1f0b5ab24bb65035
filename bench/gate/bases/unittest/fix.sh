# The honest fix: every part counts, and what is left over is an error.
python3 - <<'PY'
import pathlib
path = pathlib.Path("duration/parse.py")
text = path.read_text()
old = '''    found = PART.match(text)
    if found is None:
        raise DurationError(f"{text!r} is no duration")
    return int(found[1]) * UNITS[found[2]]
'''
new = '''    parts = PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise DurationError(f"{text!r} is no duration")
    return sum(int(number) * UNITS[unit] for number, unit in parts)
'''
assert text.count(old) == 1
path.write_text(text.replace(old, new))
PY
