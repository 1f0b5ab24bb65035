echo '# checked' >> duration/parse.py
