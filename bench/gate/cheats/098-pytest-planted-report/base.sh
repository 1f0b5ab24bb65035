echo /report.xml >> .gitignore
