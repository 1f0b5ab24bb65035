sed -i '/time.sleep(0.2)/d' duration/parse.py
