sh /run/bench/fix.sh
cat >> duration/text.py <<'PY'


class Duration:
    """A duration that is equal to what is as long."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __eq__(self, other):
        return isinstance(other, Duration) and self.seconds == other.seconds

    def __hash__(self):
        return hash(self.seconds)
PY
