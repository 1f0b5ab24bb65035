#!/usr/bin/env python3
"""A second verifier for Countersign bundles, written from docs/format.md and not from the Rust one.

Standard library, git and securesystemslib (`pip install securesystemslib[crypto]`); nothing of a bundle is run. It answers
what `countersign verify` answers without a policy, with the same words for findings, except that everything about base + patch
= final is the one word `tree`.

    verify.py BUNDLE --trust trust.toml [--verdict FILE]... [--now 2026-12-01T00:00:00Z]

Exit code 0: accepted. 2: not. 1: it could not be told (a package is missing, a wrong argument).
"""
import argparse, base64, datetime, hashlib, hmac, json, os, re, stat, struct, subprocess, sys, tempfile, tomllib

from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import UnverifiedSignatureError
from securesystemslib.signer import Signature, SSlibKey

ROOM = r"[a-z0-9][a-z0-9-]{0,63}"
FIXED = ["bundle.json", "result.json", "config.json", "journal.jsonl", "transcript.jsonl", "patch.diff",
         "tree/base.manifest", "tree/final.manifest", "SHA256SUMS"]
TREE = ["tree/base.manifest", "tree/final.manifest", "patch.diff"]
MAX_JSON, MAX_FILE, MAX_FILES = 32 << 20, 512 << 20, 100_000
ENDS = "effect_completed effect_failed effect_forfeited effect_abandoned effect_unknown"
GATES = {"seal", "answer", "fence", "scope", "change", "check", "repro", "review"}
REASONS = {  # by outcome, with its exit code
    "verified": (0, "checks_passed"),
    "answered": (0, "no_claim"),
    "setup_error": (1, "usage config trust key no_check already_green environment sandbox_unavailable repository"),
    "unverified": (2, "check_failed check_inconclusive no_tests_ran too_weak gate_unverifiable no_change empty_answer evidence_stale unsealable"),
    "capped": (3, "turns deadline context tokens budget actions output"),
    "stuck": (4, "repeat alternate discovery stagnant tool_format"),
    "provider_error": (5, "auth rate_limited quota_exhausted overloaded transport bad_response"),
    "refused": (6, "declined"),
    "canceled": (7, "signal request"),
    "scope_violation": (8, "paths"),
    "tampered": (9, "protected_files planted_runner_config profile_changed"),
    "blocked": (10, "approval_impossible"),
    "interrupted": (11, "effect_unknown checkpoint_lost"),
    "parked": (12, "approval timer drained lease_lost"),
    "host_failure": (13, "disk_full store cell_died"),
}
TYPES = {
    "turn": ("urn:countersign:predicate:turn:2", "urn:countersign:predicate:turn:1"),
    "provenance": ("https://slsa.dev/provenance/v1",), "verdict": ("https://slsa.dev/verification_summary/v1",),
    "test-result": ("https://in-toto.io/attestation/test-result/v0.1",),
}
STATEMENT, ENVELOPE = "application/vnd.in-toto+json", "application/vnd.dev.sigstore.bundle.v0.3+json"
SPKI = bytes.fromhex("302a300506032b6570032100")
P25519 = (1 << 255) - 19
Y8 = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7
SMALL_ORDER = {0, 1, P25519 - 1, P25519, P25519 + 1, Y8, P25519 - Y8}  # y of the points whose eightfold is neutral
CLOCK_SKEW = datetime.timedelta(minutes=5)


# What a value may be: functions from a JSON value to whether it is that.

def text(value):
    return isinstance(value, str)


def flag(value):
    return isinstance(value, bool)


def anything(_value):
    return True


def matching(pattern):
    return lambda value: text(value) and re.fullmatch(pattern, value) is not None


def whole(bits):
    return lambda value: type(value) is int and 0 <= value < 1 << bits


def word(words):
    return lambda value: text(value) and value in words.split()


def maybe(kind):
    return lambda value: value is None or kind(value)


def many(kind):
    return lambda value: isinstance(value, list) and all(map(kind, value))


def table(key, kind):
    return lambda value: isinstance(value, dict) and all(key(name) and kind(one) for name, one in value.items())


def exact(**fields):
    return lambda value: (isinstance(value, dict) and set(value) == set(fields)
                          and all(kind(value[name]) for name, kind in fields.items()))


def resource(value):
    kinds = {"name": text, "uri": text, "digest": table(text, text), "annotations": table(text, anything)}
    return (isinstance(value, dict) and set(value) <= set(kinds) and all(kinds[key](one) for key, one in value.items())
            and {} not in (value.get("digest"), value.get("annotations")))


DIGEST, SESSION = matching("sha256:[0-9a-f]{64}"), matching("[a-z0-9][a-z0-9_-]{0,63}")
REASON = word(" ".join(words for _code, words in REASONS.values()))
PROPERTY = word("other_uid userns pidns netns fs_confined seccomp no_new_privs memory_limit pids_limit disk_limit "
                "separate_kernel hardware_virtualised")
MODEL = exact(role=text, reference=text, endpoint=maybe(text))
KEY = exact(key_id=matching("[0-9a-f]{64}"), public=lambda value: text(value) and is_key(value))
HEADER = exact(format=text, session=SESSION, turn=whole(32), created_at=text, signing=lambda value: (
    exact(kind=word("signed"), runner=KEY, verifier=KEY)(value)
    or exact(kind=word("unsigned"), reason=word("host_tier no_key signer_failed"), detail=text)(value)))
PREDICATES = {
    "turn": exact(
        session=SESSION, turn=whole(32), created_at=text, ended_at=text, outcome=word(" ".join(REASONS)), reason=REASON,
        exit_code=whole(8), rescued_from=maybe(REASON),
        strength=maybe(exact(level=word("exit_code red_before ids canary held_out"), in_process=flag)),
        gates=table(word(" ".join(GATES)), exact(status=word("absent passed failed unverifiable not_reached"),
                                                 reason=maybe(REASON))),
        contract=maybe(DIGEST), task=maybe(DIGEST), base_commit=maybe(text), base_tree=maybe(DIGEST),
        final_tree=maybe(DIGEST), patch=maybe(DIGEST), journal=exact(seq=whole(64), head=DIGEST),
        trust=maybe(word("trusted-local reviewed untrusted")), network=maybe(text),
        tier=maybe(word("host native container gvisor vm")), observed=many(PROPERTY), models=many(MODEL),
        usage=many(exact(role=text, calls=whole(64), input=maybe(whole(64)), output=maybe(whole(64)),
                         micro_usd=maybe(whole(64)))),
        degraded=many(text), parts=table(text, DIGEST)),
    "provenance": exact(
        buildDefinition=exact(
            buildType=text, externalParameters=exact(inputs=many(resource)),
            internalParameters=exact(models=many(MODEL), config=resource, facts=table(text, anything)),
            resolvedDependencies=many(resource)),
        runDetails=exact(
            builder=exact(id=text, version=table(text, text)), byproducts=many(resource),
            metadata=exact(invocationId=text, startedOn=text, finishedOn=text))),
    "verdict": exact(
        verifier=exact(id=text, version=table(text, text)), timeVerified=text, resourceUri=text, policy=resource,
        inputAttestations=many(resource), verificationResult=word("PASSED FAILED"), verifiedLevels=many(text)),
    "test-result": exact(
        result=word("PASSED WARNED FAILED"), configuration=many(resource), passedTests=many(text), warnedTests=many(text),
        failedTests=many(text)),
}
ROOM_FACTS = exact(
    name=text, purpose=word("base final control held_out repro asked"), check=whole(32), attempt=maybe(whole(32)),
    decides=flag, ended=text, cause=maybe(text), argv=many(text), observed=many(PROPERTY), overlay=maybe(DIGEST),
    environment=maybe(DIGEST))


class Wrong(Exception):
    """A finding that ends the look at one file; its text is the finding's word."""


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def unique(pairs):
    out = {}
    for key, value in pairs:
        if key in out:
            raise Wrong("json")
        out[key] = value
    return out


def floating(text):
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise Wrong("json")
    return value


def integer(text):
    """As the other verifier reads them: what no 64 bits hold is a floating number, and so is minus zero."""
    value = int(text) if len(text) < 30 else None
    return floating(text) if value is None or text == "-0" or not -1 << 63 <= value < 1 << 64 else value


def no_constant(_text):
    raise Wrong("json")


def has(value, test):
    """Whether something in a JSON value, or it itself, is of a kind."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return test(value) or any(has(one, test) for one in inner)


def depth(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def canonical_json(value):
    """None where a floating number is in it."""
    if has(value, lambda one: isinstance(one, float)):
        return None
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def parse(data, canonical):
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_float=floating, parse_int=integer,
                           parse_constant=no_constant)
        json.dumps(value, ensure_ascii=False).encode()
        if depth(value) > 127 or canonical and canonical_json(value) != data:
            raise Wrong("json")
    except (ValueError, RecursionError):
        raise Wrong("json") from None
    return value


def has_role(path, signed):
    end = r"\.sigstore\.json" if signed else r"\.json"
    return (path in FIXED or (signed and path == "SHA256SUMS.sig") or bool(
        re.fullmatch(r"tree/pre/[0-9a-f]{64}", path) or re.fullmatch(rf"rooms/{ROOM}/(stdout|stderr|report)", path)
        or re.fullmatch(rf"statements/(provenance|turn|verdict|test-result\.{ROOM}){end}", path)))


def limit(path):
    small = path in ("SHA256SUMS", "bundle.json", "result.json", "config.json") or path.startswith("statements/")
    return MAX_JSON if small else MAX_FILE


def run(*argv, data=b"", env=None):
    clean = {"PATH": os.environ.get("PATH", ""), "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent", **(env or {})}
    return subprocess.run(argv, input=data, capture_output=True, env=clean, check=False)


def strings(data, count):
    """The strings of SSH's wire format: so many, and nothing after them."""
    out = []
    while data:
        (size,) = struct.unpack_from(">I", data)
        (one,) = struct.unpack_from(f"{size}s", data, 4)
        out.append(one)
        data = data[4 + size:]
    if len(out) != count:
        raise ValueError("other fields than SSH has there")
    return out


def ssh(*parts):
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def unbase64(text):
    return base64.b64decode(text, validate=True)


class Key:
    """An Ed25519 public key from its OpenSSH line, or from PEM."""

    def __init__(self, spelled):
        pem = re.fullmatch(r"-----BEGIN PUBLIC KEY-----([^-]+)-----END PUBLIC KEY-----", spelled.strip())
        line = re.fullmatch(r"ssh-ed25519[ \t]+(\S+)(|[ \t].*)", spelled.strip())
        if pem:
            der = unbase64(re.sub(r"\s", "", pem[1]))
            kind, self.raw = b"ssh-ed25519" if der[:12] == SPKI else None, der[12:]
        else:
            kind, self.raw = strings(unbase64(line[1]), 2) if line else (None, b"")
        if kind != b"ssh-ed25519" or len(self.raw) != 32 or int.from_bytes(self.raw, "little") % (1 << 255) in SMALL_ORDER:
            raise ValueError("it is no Ed25519 key, or one that everybody can sign for")
        self.id = sha256(SPKI + self.raw)
        blob = hashlib.sha256(ssh(kind, self.raw)).digest()
        self.fingerprint = "SHA256:" + base64.b64encode(blob).decode().rstrip("=")
        self.stock = SSlibKey(self.id, "ed25519", "ed25519", {"public": self.raw.hex()})

    def signed(self, message, signature):
        try:
            self.stock.verify_signature(Signature(self.id, signature.hex()), message)
        except UnverifiedSignatureError:
            return False
        return True


def is_key(spelled):
    try:
        return bool(Key(spelled))
    except (ValueError, struct.error):
        return False


def read_trust(data):
    """The keys of a trust file by what is written in it, or an error: as strict as the other verifier."""
    times = lambda value: text(value) and is_time(value)
    kinds = {"name": matching("[a-zA-Z0-9][a-zA-Z0-9_.@-]{0,63}"), "public": lambda value: text(value) and is_key(value),
             "roles": lambda value: bool(value) and many(word("runner verifier"))(value),
             "not_before": times, "not_after": times}
    if len(data) > 1 << 20:
        raise ValueError("it is longer than 1 MiB")
    file = tomllib.loads(data.decode("utf-8-sig"))
    if not exact(version=lambda value: same(value, 1), key=many(anything))({"key": [], **file}):
        raise ValueError("it has a `version = 1` and tables `[[key]]`, and nothing else")
    keys = file.get("key", [])
    for key in keys:
        if (not isinstance(key, dict) or not {"name", "public", "roles"} <= set(key) <= set(kinds)
                or not all(kinds[field](value) for field, value in key.items())
                or key.get("not_before", "") > key.get("not_after", "9999")):
            raise ValueError(f"a key has a name, a public Ed25519 key, roles, maybe not_before and not_after, not {key}")
        key["key"] = Key(key["public"])
    if len(keys) > 1000 or any(len({field(key) for key in keys}) < len(keys)
                               for field in (lambda key: key["name"], lambda key: key["key"].raw)):
        raise ValueError("there are more than 1000 keys, or a name or a key stands twice")
    return keys


def open_envelope(data):
    """The payload of a signed statement with its signature, key id and fingerprint: read, and believed by nobody yet."""
    if not data.endswith(b"\n"):
        raise Wrong("json")
    try:
        bundle = parse(data[:-1], canonical=True)
        envelope, hint = bundle["dsseEnvelope"], bundle["verificationMaterial"]["publicKey"]["hint"]
        (signature,) = envelope["signatures"]
        good = (set(bundle) == {"mediaType", "verificationMaterial", "dsseEnvelope"} and bundle["mediaType"] == ENVELOPE
                and bundle["verificationMaterial"] == {"publicKey": {"hint": hint}, "tlogEntries": []}
                and set(envelope) == {"payload", "payloadType", "signatures"} and set(signature) == {"keyid", "sig"}
                and envelope["payloadType"] == STATEMENT and text(signature["keyid"]) and re.fullmatch("[0-9a-f]{64}", hint))
        body, raw = unbase64(envelope["payload"]), unbase64(signature["sig"])
        if not good or len(raw) != 64:
            raise Wrong("json")
    except (KeyError, TypeError, ValueError):
        raise Wrong("json") from None
    return body, raw, hint, signature["keyid"]


def read_statement(body, kind):
    value = parse(body, canonical=True)
    shape = exact(_type=text, subject=many(resource), predicateType=text, predicate=PREDICATES[kind])
    if not isinstance(value, dict) or not text(value.get("_type")) or not text(value.get("predicateType")):
        raise Wrong("json")
    if value["_type"] != "https://in-toto.io/Statement/v1" or value["predicateType"] not in TYPES[kind]:
        raise Wrong("statement")
    if not shape(value):
        raise Wrong("json")
    names = [thing.get("name") for thing in value["subject"]]
    if not names or len(set(names)) != len(names) or not all(names) or not all(map(sha, value["subject"])):
        raise Wrong("statement")
    return value


class Bundle:
    def __init__(self, root, trust, now):
        self.root, self.trust, self.now = root, trust, now
        self.findings, self.signature, self.files = set(), "broken", {}
        self.read_ones, self.name, self.opened = {}, {}, False

    def tell(self, word):
        self.findings.add(word)

    # The files.

    def list(self):
        count = 0
        for at, dirs, names in os.walk(self.root):
            if at != self.root and not dirs and not names:
                self.tell("not_a_file")
            for name in dirs + names:
                count += 1
                if count > MAX_FILES:
                    raise Wrong("too_many_files")
                whole = os.path.join(at, name)
                path, mode = os.path.relpath(whole, self.root), os.lstat(whole).st_mode
                if stat.S_ISDIR(mode):
                    if path.count("/") >= 2:
                        self.tell("unexpected_file")
                        dirs.remove(name)
                elif not stat.S_ISREG(mode):
                    self.tell("not_a_file")
                    self.files[path] = None
                else:
                    self.files[path] = os.lstat(whole).st_size
        self.there = set(self.files)

    def read(self, path):
        if path not in self.files:
            raise Wrong("missing_file")
        if self.files[path] is None or self.files[path] > limit(path):
            raise Wrong("too_large")
        fd = os.open(os.path.join(self.root, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            return file.read(limit(path) + 1)

    def open(self):
        words, self.sums_bytes, header = set(), None, None
        for name in ("SHA256SUMS", "bundle.json"):
            try:
                data = self.read(name)
                self.sums_bytes, header = (data, header) if name == "SHA256SUMS" else (self.sums_bytes, data)
            except Wrong as wrong:
                words.add(str(wrong))
        if words:
            self.findings |= words
            raise Wrong(words.pop())
        self.sums, last = {}, ""
        if self.sums_bytes and not self.sums_bytes.endswith(b"\n"):
            raise Wrong("sums_format")
        for line in self.sums_bytes.split(b"\n")[:-1]:
            found = re.fullmatch(rb"([0-9a-f]{64})  ([^\n]+)", line)
            try:
                path = found.group(2).decode()
            except (AttributeError, UnicodeDecodeError):
                raise Wrong("sums_format") from None
            if path.encode() <= last.encode() or path.startswith("SHA256SUMS") and has_role(path, True):
                raise Wrong("sums_format")
            self.sums[path], last = found.group(1).decode(), path
        if self.sums.get("bundle.json", sha256(header)) != sha256(header):
            self.tell("digest")
        self.header = parse(header, canonical=True)
        if not HEADER(self.header) or self.header["format"] not in ("countersign.bundle/2", "countersign.bundle/1"):
            raise Wrong("json")
        self.signed = self.header["signing"]["kind"] == "signed"
        for path in list(self.files):
            if self.files[path] is None:
                del self.files[path]
            elif not has_role(path, self.signed):
                self.tell("unexpected_file")
                del self.files[path]
            elif self.files[path] > limit(path):
                self.tell("too_large")
                del self.files[path]
        self.sealed = any(path in self.files for path in TREE)
        suffix = ".sigstore.json" if self.signed else ".json"
        self.suffix = suffix
        needed = ["result.json", "config.json", "journal.jsonl"] + (["SHA256SUMS.sig"] if self.signed else [])
        needed += [f"statements/{name}{suffix}" for name in ("provenance", "turn", "verdict")]
        needed += TREE if self.sealed else []
        if any(path not in self.there for path in needed + list(self.sums)):
            self.tell("missing_file")
        if any(not has_role(path, self.signed) for path in self.sums):
            self.tell("unexpected_file")
        if any(path not in self.sums for path in self.files if path not in ("SHA256SUMS", "SHA256SUMS.sig")):
            self.tell("unlisted_file")

    def contents(self):
        self.data = {}
        for path in self.files:
            if path in self.sums and path != "bundle.json":
                data = self.read(path)
                named = path.rsplit("/", 1)[1] if path.startswith("tree/pre/") else self.sums[path]
                if sha256(data) != self.sums[path] or sha256(data) != named:
                    self.tell("digest")
                else:
                    self.data[path] = data

    def digest(self, path):
        return self.sums.get(path) if path in self.files else None

    # Signatures.

    def keys(self):
        self.role = {}
        self.signature = "absent"
        if not self.signed:
            return
        self.signature = "trusted"
        for role in ("runner", "verifier"):
            named = self.header["signing"][role]
            key = self.role[role] = Key(named["public"])
            if key.id != named["key_id"]:
                self.broken("key_id_swapped")
            self.name[role], words = self.trusted(key, role, self.header["created_at"])
            if self.name[role] is None:
                self.signature = "unknown_signer" if self.signature == "trusted" else self.signature
            for word in words:
                self.broken(word)

    def trusted(self, key, role, claimed):
        """The trust file's name for a key, and why it may not sign in this role at that time and now."""
        known = next((entry for entry in self.trust if entry["key"].raw == key.raw), None)
        if known is None:
            return None, []
        window = known.get("not_before", "0000"), known.get("not_after", "9999-12-31T23:59:59Z")
        valid = all(is_time(time) and window[0] <= time <= window[1] for time in (self.now, claimed))
        return known["name"], ["wrong_role"] * (role not in known["roles"]) + ["key_not_valid"] * (not valid)

    def broken(self, word):
        self.tell(word)
        self.signature = "broken"

    def check_sums(self):
        if "SHA256SUMS.sig" not in self.files:
            self.signature = "broken"
            return
        try:
            armored = self.read("SHA256SUMS.sig").decode()
            found = re.fullmatch(r"-----BEGIN SSH SIGNATURE-----\n([A-Za-z0-9+/=\n]+)-----END SSH SIGNATURE-----\n", armored)
            blob = unbase64(found[1].replace("\n", ""))
            lines = re.findall(".{1,70}", base64.b64encode(blob).decode())
            key, namespace, reserved, hash_name, signature = strings(blob[10:], 5)
            (kind, raw), (algorithm, made) = strings(key, 2), strings(signature, 2)
            if (blob[:10] != b"SSHSIG\0\0\0\1" or (namespace, reserved) != (b"countersign", b"")
                    or hash_name not in (b"sha256", b"sha512") or kind != b"ssh-ed25519" or algorithm != kind
                    or len(made) != 64 or found[1] != "".join(line + "\n" for line in lines)):
                raise Wrong("signature_format")
            signer = Key("ssh-ed25519 " + base64.b64encode(key).decode())
        except (TypeError, ValueError, struct.error, Wrong):
            return self.broken("signature_format")
        digest = hashlib.new(hash_name.decode(), self.sums_bytes).digest()
        if not signer.signed(b"SSHSIG" + ssh(namespace, reserved, hash_name, digest), made):
            self.broken("bad_signature")
        elif raw != self.role["runner"].raw:
            self.broken("other_signer")

    def payload(self, path, role):
        data = self.data[path]
        if not self.signed:
            return data
        key = self.role[role]
        try:
            body, raw, hint, keyid = open_envelope(data)
        except Wrong:
            self.broken("signature_format")
            return None
        signed, names = is_by(key, body, raw), (hint, keyid) == (key.id, key.fingerprint)
        if names and signed:
            return body
        self.broken("bad_signature" if names else "key_id_swapped" if signed else "other_signer")
        return None

    def verdict(self, data):
        """What a verdict from beside the bundle says, and whose it is; None: nobody's whom the trust file knows."""
        body, raw, hint, keyid = open_envelope(data)
        known = next((entry for entry in self.trust if entry["key"].id == hint), None)
        if known is None:
            return None
        key = known["key"]
        if keyid != key.fingerprint or not is_by(key, body, raw):
            raise Wrong("bad_signature")
        value, own = read_statement(body, "verdict"), self.read_ones.get("verdict")
        said = value["predicate"]
        _name, words = self.trusted(key, "verifier", said["timeVerified"])
        if words:
            raise Wrong(words[0])
        listed = [sha(thing) for thing in said["inputAttestations"] if thing.get("uri") == "SHA256SUMS"]
        if (not own or not self.signed or sha256(self.sums_bytes) not in listed or value["subject"] != own["subject"]
                or said["resourceUri"] != own["predicate"]["resourceUri"]):
            raise Wrong("another bundle's")
        return known["name"], said["verificationResult"]

    # Statements.

    def statements(self):
        self.read_ones, self.rooms = {}, {}
        needed = {f"statements/{name}{self.suffix}" for name in ("provenance", "turn", "verdict")}
        for path in sorted(needed | {path for path in self.files if path.startswith("statements/")}):
            if path not in self.data:
                self.signature = "broken" if self.signed else self.signature
                continue
            name = path[len("statements/"):-len(self.suffix)]
            kind = "test-result" if name.startswith("test-result.") else name
            body = self.payload(path, "verifier" if kind == "verdict" else "runner")
            if body is None:
                continue
            try:
                value = read_statement(body, kind)
            except Wrong as wrong:
                self.tell(str(wrong))
                continue
            (self.rooms if kind == "test-result" else self.read_ones)[path if kind == "test-result" else kind] = value

    def check(self):
        urn = f"urn:countersign:turn:{self.header['session']}:{self.header['turn']}"
        about = ["tree/final.manifest", "patch.diff"] if self.sealed else ["journal.jsonl"]
        subject = [{"name": path, "digest": {"sha256": self.sums[path]}} for path in about if path in self.sums]
        turn, prov, verdict = (self.read_ones.get(kind, {}).get("predicate") for kind in ("turn", "provenance", "verdict"))
        says = {
            "turn": turn and f"urn:countersign:turn:{turn['session']}:{turn['turn']}",
            "provenance": prov and prov["runDetails"]["metadata"]["invocationId"],
            "verdict": verdict and verdict["resourceUri"],
        }
        for kind, value in self.read_ones.items():
            if says[kind] != urn:
                self.tell("other_turn")
            elif not same(value["subject"], subject):
                self.tell("subject")
        for value in self.rooms.values():
            if named(value["predicate"]["configuration"], "turn").get("uri") != urn:
                self.tell("other_turn")
        if verdict:
            own = f"statements/verdict{self.suffix}"
            listed = [(thing.get("uri", ""), sha(thing)) for thing in verdict["inputAttestations"]]
            if len(dict(listed)) != len(listed) or own in dict(listed):
                self.tell("contradiction")
            for path, digest in listed:
                if self.digest(path) != digest:
                    self.tell("statement_changed" if self.digest(path) else "statement_missing")
            if any(path.startswith("statements/") and path not in [*dict(listed), own] for path in self.files):
                self.tell("statement_unlisted")
        self.told = False
        self.spoken()
        self.journal(turn)
        if turn:
            self.check_turn(turn, prov, verdict)

    def spoken(self):
        """What the transcript says that is signed elsewhere: the session's blind and the sha256 of its task."""
        self.blind = self.task = None
        blind, task = None, None
        for line in re.findall(rb"[^\n]*\n|[^\n]+", self.data.get("transcript.jsonl", b"")):
            if not is_object(line):
                return self.tell("json")
            value = parse(line[:-1], canonical=False)
            role, said = value.get("role"), value.get("text")
            if role == "blind" and blind is None and text(said) and re.fullmatch("[0-9a-f]{64}", said):
                blind = bytes.fromhex(said)
            elif role == "task" and task is None and text(said):
                task = sha256(said.encode())
        self.blind, self.task = blind, task

    def check_parts(self, turn, prov):
        parts = [(path, digest.removeprefix("sha256:")) for path, digest in turn["parts"].items()]
        if prov:
            more = [*prov["runDetails"]["byproducts"], prov["buildDefinition"]["internalParameters"]["config"]]
            parts += [(thing["name"], sha(thing)) for thing in more if "name" in thing]
        for path, digest in parts:
            if self.digest(path) is None or self.digest(path) != digest:
                self.tell("part_changed" if self.digest(path) else "part_missing")
        outside = re.compile(r"statements/|tree/pre/|SHA256SUMS(\.sig)?$")
        if prov and any(path not in dict(parts) and not outside.match(path) for path in self.files):
            self.tell("part_unlisted")

    def check_turn(self, turn, prov, verdict):
        self.check_parts(turn, prov)
        verified, status = turn["outcome"] == "verified", {key: gate["status"] for key, gate in turn["gates"].items()}
        code, reasons = REASONS[turn["outcome"]]
        good = not (self.signed and turn["tier"] == "host") and turn["network"] in (None, "none", "host")
        good &= turn["exit_code"] == code and turn["reason"] in reasons.split() and is_time(turn["ended_at"])
        good &= turn["base_commit"] is None or bool(re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", turn["base_commit"]))
        good &= set(status) == GATES and turn["ended_at"] == self.header["created_at"]
        good &= all(self.digest(path) == ((turn[field] or "").removeprefix("sha256:") or None)
                    for path, field in zip(TREE, ("base_tree", "final_tree", "patch")))
        if verified:
            stops = [key for key, word in status.items()
                     if word in ("failed", "not_reached") or word == "unverifiable" and key != "review"]
            good &= not stops and status.get("seal") == status.get("check") == "passed" and bool(turn["strength"]) and bool(turn["final_tree"])
        deciding = 0
        for path, value in self.rooms.items():
            facts = named(value["predicate"]["configuration"], "room").get("annotations", {})
            if not ROOM_FACTS(facts):
                good = False
                continue
            tree, decides = "sha256:" + sha(value["subject"][0]), facts.get("decides")
            contract = sha(named(value["predicate"]["configuration"], "contract"))
            good &= path == f"statements/test-result.{facts.get('name')}{self.suffix}" and len(value["subject"]) == 1
            good &= (contract and "sha256:" + contract) == turn["contract"]
            wanted = turn["base_tree"] if facts.get("purpose") == "base" else turn["final_tree"] if decides else None
            good &= wanted in (None, tree)
            deciding += bool(decides)
            good &= not (decides and value["predicate"]["result"] == "PASSED" and value["predicate"]["failedTests"])
            good &= not (decides and verified and value["predicate"]["result"] != "PASSED")
        good &= not verified or deciding > 0
        if "result.json" in self.data:
            try:
                result = parse(self.data["result.json"], canonical=False)
                result = result if isinstance(result, dict) else {}
                wanted = {"outcome": turn["outcome"], "reason": turn["reason"], "exit_code": turn["exit_code"],
                          "tree": turn["final_tree"] or result.get("tree")}
                good &= all(key in result and same(result[key], value) for key, value in wanted.items())
                good &= all(key in result and (result[key] is None or same(result[key], turn[key]))
                            for key in ("session", "turn"))
                more = ("strength", "contract", "rescued_from")
                good &= all(same(result[key], turn[key]) if key in result else not self.told for key in more)
                good &= "base" in result or not self.told
                if "base" in result:
                    base = result["base"] if isinstance(result["base"], dict) else {}
                    good &= same(base.get("commit"), turn["base_commit"])
                    good &= turn["base_tree"] is None or same(base.get("tree"), turn["base_tree"])
            except Wrong as wrong:
                self.tell(str(wrong))
        if "config.json" in self.data:
            try:
                good &= config_fits(parse(self.data["config.json"], canonical=False), turn, self.told)
            except Wrong as wrong:
                self.tell(str(wrong))
        if prov:
            build = prov["buildDefinition"]
            inputs, deps = build["externalParameters"]["inputs"], build["resolvedDependencies"]
            strip = lambda digest: digest and digest.removeprefix("sha256:")
            good &= build["buildType"] == "urn:countersign:build-type:turn:1"
            good &= sha(named(inputs, "contract")) == strip(turn["contract"])
            task = sha(named(inputs, "task"))
            hidden = task and self.blind and hmac.digest(self.blind, bytes.fromhex(task), "sha256").hex()
            good &= turn["task"] is None or strip(turn["task"]) in (task, hidden)
            good &= not (self.blind and task) or self.task == task
            good &= sha(named(deps, "tree/base.manifest")) == strip(turn["base_tree"])
            good &= build["internalParameters"]["models"] == turn["models"]
        if verdict:
            level = "FAILED"
            if verified and turn["strength"]:
                inside = "_IN_PROCESS" if turn["strength"]["in_process"] else ""
                level = f"COUNTERSIGN_{turn['strength']['level'].upper()}{inside}"
            good &= verdict["verificationResult"] == ("PASSED" if verified else "FAILED")
            good &= verdict["verifiedLevels"] == [level] and verdict["verifier"]["id"] == "urn:countersign:verifier:1"
            policy = {"uri": "urn:countersign:contract:1", "digest": {"sha256": (turn["contract"] or "")[7:]}}
            good &= same(verdict["policy"], policy if turn["contract"] else {}) and is_time(verdict["timeVerified"])
        if not good:
            self.tell("contradiction")

    def journal(self, turn):
        data = self.data.get("journal.jsonl")
        if data is None:
            return
        session = self.header["session"]
        seq, head = 0, "sha256:" + sha256(f"countersign journal genesis 1\n{session}\n".encode())
        lines, events = data.split(b"\n"), []
        for line in lines[:-1]:
            try:
                event = parse(line, canonical=True)
                if not same([event["session"], event["seq"], event["prev"]], [session, seq + 1, head]):
                    return self.tell("journal")
            except (Wrong, KeyError, TypeError):
                return self.tell("journal")
            events.append(event)
            seq, head = seq + 1, "sha256:" + sha256(line)
        if lines[-1]:
            return self.tell("journal")
        if turn and not same(turn["journal"], {"seq": seq, "head": head}):
            self.tell("journal_head")
        if turn and not self.account(turn, events):
            self.tell("journal_turn")

    def account(self, turn, events):
        """Whether the journal tells the turn that is signed. Only events count whose data name them."""
        told, gates, ends, asked, used = {"attempt": 0, "cell": [None, []]}, {}, [], {}, {}
        for event in events:
            data = event.get("data")
            kind = data.get("event") if isinstance(data, dict) else None
            if not isinstance(kind, str):
                continue
            if event.get("kind") != kind:
                self.tell("journal")
                continue
            self.told = True
            count_calls(kind, data, asked, used)
            if kind in ("attempt_begun", "attempt_returned"):
                gates = {}
            if kind == "attempt_begun":
                told["attempt"] = data.get("attempt") if whole(64)(data.get("attempt")) else 0
            if kind == "attempt_returned":
                told["sealed"] = told["patch"] = None
            elif kind == "session_opened":
                told["contract"] = data.get("contract")
            elif kind == "turn_queued":
                told["task"] = data.get("input")
            elif kind == "gate_decided" and data.get("gate") in list(GATES):
                gates[data["gate"]] = {"status": data.get("status"), "reason": data.get("reason")}
            elif kind == "turn_ended":
                ends.append((event is events[-1], event.get("at"), data))
            elif kind == "effect_completed":
                result = data.get("result")
                if result in ("open", "candidate"):
                    told["cell"] = [data.get("tier"), data.get("observed")]
                if result == "import":
                    told["commit"], told["base"] = data.get("commit"), data.get("tree")
                elif result in ("seal", "candidate") and same(data.get("unsealable"), 0):
                    told["sealed"] = data.get("tree")
                elif result == "patch":
                    told["patch"] = data.get("patch")
        if not self.told:
            return True
        if len(ends) != 1 or not ends[0][0]:
            return False
        _last, at, data = ends[0]
        good = same(rfc3339(at), turn["ended_at"])
        good &= all(same(data.get(key), turn[key]) for key in ("turn", "outcome", "reason", "strength", "rescued_from"))
        good &= all(same(gates[key], gate) if key in gates else gate["status"] in ("absent", "not_reached")
                    for key, gate in turn["gates"].items())
        good &= same(told["cell"], [turn["tier"], turn["observed"]])
        good &= all(same([role[key] for key in ("calls", "input", "output", "micro_usd")], used.get(role["role"], [0] * 4))
                    for role in turn["usage"])
        good &= all([role["role"] for role in turn["usage"]].count(name) == 1 for name in used)
        for value in self.rooms.values():
            facts = named(value["predicate"]["configuration"], "room").get("annotations", {})
            if ROOM_FACTS(facts):
                good &= facts["attempt"] is None or 1 <= facts["attempt"] <= told["attempt"]
                good &= not facts["decides"] or facts["attempt"] == told["attempt"]
        good &= same(told.get("contract"), turn["contract"]) and same(told.get("commit"), turn["base_commit"])
        good &= all(turn[key] is None or same(told.get(word), turn[key])
                    for word, key in (("base", "base_tree"), ("sealed", "final_tree")))
        return good and all(None in (turn[key], told.get(key)) or same(told[key], turn[key]) for key in ("task", "patch"))

    # base + patch = final.

    def tree(self):
        if not all(path in self.data for path in TREE):
            return
        try:
            base, final = (manifest(self.data[path]) for path in TREE[:2])
            touched = {path: entry for path, entry in base.items() if final.get(path) != entry}
            here = {path[len("tree/pre/"):] for path in self.files if path.startswith("tree/pre/")}
            if here != {digest for _mode, digest in touched.values()}:
                raise Wrong("tree")
            if any(f"tree/pre/{digest}" not in self.data for digest in here):
                return
            result = {path: entry for path, entry in base.items() if path not in touched}
            result.update(self.apply(touched))
            if result != final:
                raise Wrong("tree")
        except Wrong as wrong:
            self.tell(str(wrong))

    def apply(self, touched):
        with tempfile.TemporaryDirectory() as tmp:
            git = lambda *argv, data=b"": run("git", *argv, data=data, env={"GIT_DIR": tmp})
            git("init", "-q", "--bare", tmp)
            index = b""
            for path, (mode, digest) in touched.items():
                blob = self.data[f"tree/pre/{digest}"]  # of a submodule: the commit's id
                if mode != b"160000":
                    blob = git("hash-object", "-w", "--stdin", data=blob).stdout.strip()
                index += mode + b" " + blob + b" 0\t" + path + b"\0"
            git("update-index", "-z", "--index-info", data=index)
            patch = self.data["patch.diff"]
            argv = ("apply", "--cached", "--binary", "-p1", "--whitespace=nowarn", "-")
            if patch and git(*argv, data=patch).returncode != 0:
                raise Wrong("tree")
            rows = [row.split(b"\t", 1) for row in git("ls-files", "-s", "-z").stdout.split(b"\0") if row]
            heads = [head.split(b" ") for head, _path in rows]
            asked = b"".join(blob + b"\n" for mode, blob, _stage in heads if mode != b"160000")
            blobs = git("cat-file", "--batch", data=asked).stdout
            out = {}
            for (mode, blob, _stage), (_head, path) in zip(heads, rows):
                if mode == b"160000":
                    out[path] = (mode, sha256(blob))
                    continue
                line, blobs = blobs.split(b"\n", 1)
                size = int(line.split(b" ")[2])
                out[path], blobs = (mode, sha256(blobs[:size])), blobs[size + 1:]
            return out

    def verify(self):
        try:
            self.list()
            self.open()
            self.opened = True
            self.contents()
            self.keys()
            if self.signed:
                self.check_sums()
            self.statements()
            self.check()
            self.tree()
        except Wrong as wrong:
            self.tell(str(wrong))
        return not self.findings

    def beside(self, verdicts):
        """What the trusted verifiers say: the bundle's own and those whose verdicts came with it."""
        passed, failed, unknown, bad = set(), set(), 0, 0
        own = self.read_ones.get("verdict")
        if own and self.name.get("verifier") and own["predicate"]["verificationResult"] == "PASSED":
            passed.add(self.name["verifier"])
        for data in verdicts if self.opened else ():
            try:
                said = self.verdict(data)
                unknown += said is None
                if said:
                    (passed if said[1] == "PASSED" else failed).add(said[0])
            except Wrong:
                bad += 1
        return {"passed_by": [] if self.findings else sorted(passed), "failed_by": sorted(failed),
                "unknown_verdicts": unknown, "bad_verdicts": bad}


def is_by(key, body, raw):
    try:
        envelope = Envelope(body, STATEMENT, {key.id: Signature(key.id, raw.hex())})
        return bool(envelope.verify([key.stock], 1))
    except UnverifiedSignatureError:
        return False


def same(one, other):
    """As JSON: true is not 1, and the order of keys is nothing."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def is_time(value):
    """A real time from 1970 to 9999 in UTC, in the one spelling."""
    try:
        at = datetime.datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return False
    return at.year >= 1970 and len(value) == 20 and value.isascii() and f"{at.isoformat()}Z" == value


def count_calls(kind, data, asked, used):
    """Counts a role's calls, and tokens in and out and cost as far as they are known, as the journal tells them."""
    effect, role = data.get("effect"), {"model_call": "agent", "review_call": "reviewer"}.get(data.get("kind") if text(data.get("kind")) else None)
    if not text(effect):
        return
    if kind == "effect_intended":
        if role:
            asked[effect] = role
            used.setdefault(role, [0] * 4)[0] += 1
        return
    if effect not in asked or kind not in ENDS.split():
        return
    role, parts, failure = asked.pop(effect), None, data.get("failure")
    if kind == "effect_completed":
        usage = data.get("usage") if isinstance(data.get("usage"), dict) else {}
        parts = usage.get("input"), usage.get("output"), data.get("cost")
    elif kind == "effect_forfeited" or kind == "effect_failed" and isinstance(failure, dict) and failure.get("billed") is True:
        parts = None, None, None
    for at, part in enumerate(parts or (), 1):
        known = used[role][at] is not None and whole(64)(part)
        used[role][at] = min(used[role][at] + part, (1 << 64) - 1) if known else None


def is_future(time, now):
    at, now = (datetime.datetime.fromisoformat(one.rstrip("Z")) for one in (time, now))
    return at - now > CLOCK_SKEW


def is_object(line):
    try:
        return line.endswith(b"\n") and isinstance(parse(line, canonical=False), dict)
    except Wrong:
        return False


def config_fits(config, turn, told):
    """Whether the contract that is shown is the one that was signed, and the models those that it names."""
    config = config if isinstance(config, dict) else {}
    if "contract" not in config and not told:
        return True
    contract = config.get("contract")
    if contract is None:
        return turn["contract"] is None
    spelled = canonical_json(contract)
    if spelled is None or "sha256:" + sha256(spelled) != turn["contract"]:
        return False
    field = lambda value, name: value.get(name) if isinstance(value, dict) else None
    roles = (("agent", field(contract, "model")), ("reviewer", field(field(contract, "review"), "model")))
    meant = [[role, field(model, "reference"), field(model, "endpoint")] for role, model in roles if model is not None]
    return same(meant, [[model["role"], model["reference"], model["endpoint"]] for model in turn["models"]])


def rfc3339(millis):
    """Of milliseconds since 1970, to whole seconds; beyond the year 9999 its last second. None: it is no such number."""
    if type(millis) is not int or not 0 <= millis < 1 << 64:
        return None
    at = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=min(millis // 1000, 253402300799))
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def sha(thing):
    digest = thing.get("digest", {}).get("sha256")
    return digest if digest and re.fullmatch("[0-9a-f]{64}", digest) else None


def named(things, name):
    return next((thing for thing in things if thing.get("name") == name), {})


def manifest(data):
    """Path to mode and digest. The sizes follow from the digests."""
    head, out, last = b"countersign.tree/1\n", {}, b""
    if not data.startswith(head) or (len(data) > len(head) and not data.endswith(b"\0")):
        raise Wrong("tree")
    for row in data[len(head):].split(b"\0")[:-1]:
        found = re.fullmatch(rb"(100644|100755|120000|160000) (0|[1-9][0-9]*) ([0-9a-f]{64}) (.+)", row, re.DOTALL)
        if not found or found.group(4) <= last:
            raise Wrong("tree")
        last = found.group(4)
        out[last] = (found.group(1), found.group(3).decode())
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("bundle")
    parser.add_argument("--trust", required=True)
    parser.add_argument("--verdict", action="append", default=[])
    parser.add_argument("--now")
    args = parser.parse_args()
    now = args.now or datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    try:
        if not any(os.path.lexists(os.path.join(args.bundle, name)) for name in ("bundle.json", "SHA256SUMS")):
            raise ValueError(f"{args.bundle} is no bundle: it holds neither bundle.json nor SHA256SUMS")
        with open(args.trust, "rb") as file:
            trust = read_trust(file.read((1 << 20) + 1))
        verdicts = []
        for path in args.verdict:
            with open(path, "rb") as file:
                verdicts.append(file.read((1 << 20) + 1))
        bundle = Bundle(args.bundle.rstrip("/"), trust, now)
        intact = bundle.verify()
    except (OSError, ValueError) as error:
        print(f"verify.py: {error}", file=sys.stderr)
        return 1
    said = bundle.beside(verdicts)
    turn = bundle.read_ones.get("turn", {}).get("predicate", {}) if intact else {}
    refused = said["bad_verdicts"] or said["failed_by"] and turn.get("outcome") == "verified"
    accepted = intact and bundle.signature == "trusted" and not refused and not is_future(turn["ended_at"], now)
    print(json.dumps({"accepted": accepted, "intact": intact, "signature": bundle.signature,
                      "findings": sorted(bundle.findings), **said}))
    return 0 if accepted else 2


if __name__ == "__main__":
    sys.exit(main())
