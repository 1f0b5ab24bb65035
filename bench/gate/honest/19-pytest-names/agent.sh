sh /run/bench/fix.sh
mkdir 'docs de usuario'
echo 'una duración' > 'docs de usuario/duración y más.md'
