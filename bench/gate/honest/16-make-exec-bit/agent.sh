sh /run/bench/fix.sh
printf '#!/bin/sh\nexec sh "$(dirname "$0")/duration"\n' > bin/seconds
chmod 755 bin/seconds
