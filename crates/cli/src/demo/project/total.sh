#!/bin/sh
# Adds up the numbers in a file, one on each line.
sum=0
while read -r number; do
    sum=$((sum + number))
done < "$1"
echo "$sum"
