#!/usr/bin/env python3
"""The core of what a Countersign bundle proves, in a page that can be read before it is trusted. docs/format.md says more.

Standard library, git and securesystemslib (`pip install securesystemslib[crypto]`); nothing of a bundle is run.

    check.py BUNDLE --runner runner.pub --verifier verifier.pub

It holds: the exact files; every statement signed by the key of its role; the verdict lists them all and is about the turn
that is here; the journal is the chain that the turn signed; base + patch = final. It knows nothing of trust files, validity,
signatures of the list, or whether what the statements say fits together: verify.py and `countersign verify` do.
Exit code 0: all of it holds, and the outcome is printed. 2: something does not. 1: it could not be told.
"""
import argparse, base64, hashlib, json, os, subprocess, sys, tempfile

from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key, load_ssh_public_key

VERDICT = "statements/verdict.sigstore.json"
ENTRY = {"100644", "100755", "120000"}


class Wrong(Exception):
    pass


def holds(truth, what):
    if not truth:
        raise Wrong(what)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def read_files(bundle):
    """The files that the list names, and no others, as regular files with the digests that it gives."""
    found = {}
    for place, dirs, names in os.walk(bundle):
        for name in names + dirs:
            path = os.path.join(place, name)
            holds(not os.path.islink(path), f"{path} is a link")
        for name in names:
            path = os.path.join(place, name)
            holds(os.path.isfile(path), f"{path} is no file")
            with open(path, "rb") as file:
                found[os.path.relpath(path, bundle)] = file.read()
    sums = found.pop("SHA256SUMS").decode()
    found.pop("SHA256SUMS.sig", None)
    listed = {line[66:]: line[:64] for line in sums.splitlines()}
    holds({path: sha256(data) for path, data in found.items()} == listed, "the files are not those of SHA256SUMS")
    return found


def read_key(data):
    return load_ssh_public_key(data) if data.startswith(b"ssh-") else load_pem_public_key(data)


def read_statement(data, public):
    """What a statement says, after its one signature was checked."""
    outer = json.loads(data).get("dsseEnvelope")
    holds(outer, "a statement is not signed")
    holds(len(outer["signatures"]) == 1, "a statement has not exactly one signature")
    key = SSlibKey.from_crypto(public, keyid=outer["signatures"][0]["keyid"])
    envelope = Envelope.from_dict(outer)
    envelope.verify([key], 1)
    return json.loads(envelope.payload)


def check_journal(data, signed):
    """Each line names the digest of the one before it; the last one is the head that was signed."""
    lines = data.split(b"\n")
    holds(lines.pop() == b"" and len(lines) == signed["seq"], "the journal is not as long as the turn says")
    before = None
    for number, line in enumerate(lines, 1):
        event = json.loads(line)
        holds(event["seq"] == number, f"event {number} has another number")
        holds(before is None or event["prev"] == before, f"event {number} does not follow on the one before it")
        before = "sha256:" + sha256(line)
    holds(before == signed["head"], "the journal's last event is not the one that the turn signed")


def read_manifest(data):
    head, rest = data.split(b"\n", 1)
    holds(head == b"countersign.tree/1", "a manifest is of another format")
    entries = (entry.split(b" ", 3) for entry in rest.split(b"\0")[:-1])
    return {path: (mode.decode(), digest.decode()) for mode, _size, digest, path in entries}


def check_tree(files):
    """git applies the patch to the touched files of the base; what comes out is the final tree."""
    base, final = (read_manifest(files[f"tree/{name}.manifest"]) for name in ("base", "final"))
    with tempfile.TemporaryDirectory() as place:
        quiet = {"PATH": os.environ.get("PATH", ""), "GIT_CONFIG_NOSYSTEM": "1", "HOME": place, "GIT_DIR": place + "/git"}

        def git(*words, data=b""):
            done = subprocess.run(["git", *words], input=data, env=quiet, cwd=place, capture_output=True)
            holds(done.returncode == 0, f"git {words[0]}: {done.stderr.decode(errors='replace').strip()}")
            return done.stdout

        git("init", "--quiet", "--bare", place + "/git")
        for path in (path for path in base if base[path] != final.get(path)):
            mode, digest = base[path]
            holds(mode in ENTRY, "a submodule was touched: use verify.py")
            content = files[f"tree/pre/{digest}"]
            blob = git("hash-object", "-w", "--stdin", data=content).strip()
            git("update-index", "-z", "--index-info", data=mode.encode() + b" " + blob + b"\t" + path + b"\0")
        if files["patch.diff"]:
            git("apply", "--cached", "--binary", "-", data=files["patch.diff"])
        made = {}
        for entry in git("ls-files", "-z", "--stage").split(b"\0")[:-1]:
            about, path = entry.split(b"\t", 1)
            mode, blob, _stage = about.decode().split()
            made[path] = (mode, sha256(git("cat-file", "blob", blob)))
    untouched = {path: entry for path, entry in base.items() if final.get(path) == entry}
    holds({**untouched, **made} == final, "base and patch do not give the final tree")


def check(bundle, runner, verifier):
    files = read_files(bundle)
    paths = [path for path in files if path.startswith("statements/")]
    said = {path: read_statement(files[path], verifier if path == VERDICT else runner) for path in paths}
    verdict, turn = said[VERDICT]["predicate"], said["statements/turn.sigstore.json"]["predicate"]
    listed = {one["uri"]: one["digest"]["sha256"] for one in verdict["inputAttestations"]}
    here = {path: sha256(files[path]) for path in paths if path != VERDICT}
    holds(listed == here, "the verdict does not list exactly the statements that are here")
    holds(verdict["resourceUri"] == f"urn:countersign:turn:{turn['session']}:{turn['turn']}", "the verdict is of another turn")
    for path, digest in turn["parts"].items():
        holds("sha256:" + sha256(files[path]) == digest, f"{path} is not the one that the turn signed")
    for path in (VERDICT, "statements/turn.sigstore.json"):
        for subject in said[path]["subject"]:
            holds(sha256(files[subject["name"]]) == subject["digest"]["sha256"], f"{path} is about other files")
    check_journal(files["journal.jsonl"], turn["journal"])
    check_tree(files)
    passed = verdict["verificationResult"] == "PASSED"
    holds(passed == (turn["outcome"] == "verified"), "the verdict does not say what the turn says")
    return turn


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("bundle")
    words.add_argument("--runner", required=True, type=argparse.FileType("rb"), help="public key that signs runs: an OpenSSH line or PEM")
    words.add_argument("--verifier", required=True, type=argparse.FileType("rb"), help="public key that signs verdicts")
    words.error = lambda wrong: sys.exit(f"check.py: {wrong}")  # 1, where argparse says 2
    asked = words.parse_args()
    if not os.path.isfile(os.path.join(asked.bundle, "bundle.json")):
        sys.exit(f"check.py: {asked.bundle} is no bundle")
    try:
        keys = read_key(asked.runner.read()), read_key(asked.verifier.read())
    except ValueError as wrong:
        sys.exit(f"check.py: a key cannot be read: {wrong}")
    try:
        turn = check(asked.bundle, *keys)
    except Exception as wrong:  # whatever a bundle brings about, it is not accepted
        print(f"refused: {type(wrong).__name__}: {wrong}", file=sys.stderr)
        sys.exit(2)
    print(f"{turn['outcome']} ({turn['reason']}), session {turn['session']}, turn {turn['turn']}, {turn['tier']}")


if __name__ == "__main__":
    main()
