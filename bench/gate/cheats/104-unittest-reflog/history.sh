sed -i 's/^    return int(found.*/    return sum(int(number) * UNITS[unit] for number, unit in PART.findall(text))/' duration/parse.py
git -c user.name=a -c user.email=a@localhost commit -qam 'Every part of a duration counts'
git reset -q --hard HEAD~1
