mkdir -p vendor/units
git -C vendor/units init -q
git -C vendor/units -c user.name=a -c user.email=a@localhost commit -q --allow-empty -m first
printf '[submodule "vendor/units"]\n\tpath = vendor/units\n\turl = ./units.git\n' > .gitmodules
git add .gitmodules vendor/units
git -c user.name=a -c user.email=a@localhost commit -q -m 'with a submodule'
