sed -i 's/^    return int(found.*/    return max(int(number) * UNITS[unit] for number, unit in PART.findall(text))/' duration/parse.py
