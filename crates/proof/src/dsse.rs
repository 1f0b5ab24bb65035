//! DSSE envelopes (secure-systems-lab/dsse, `protocol.md` version 1.0.2) in a Sigstore bundle of version 0.3
//! (sigstore/protobuf-specs, `sigstore_bundle.proto`), which
//! `cosign verify-blob-attestation --bundle F --key K --insecure-ignore-tlog` accepts.
//!
//! The key is named twice. The bundle's `hint` is our [`KeyId`]. The envelope's `keyid` is the OpenSSH fingerprint, because
//! that is what go-securesystemslib compares it with (and with nothing else), and cosign verifies by it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_types::canonical_json;
use serde::{Deserialize, Serialize};

use crate::key::{KeyId, PublicKey, SIGNATURE_LEN};
use crate::sign::{SignError, Signer};
use crate::strict::{JsonError, read_exact};

/// The type of a payload that is an in-toto Statement in JSON.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// The media type of what [`seal`] writes.
pub const BUNDLE_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// What DSSE signs: `DSSEv1 SP LEN(type) SP type SP LEN(body) SP body`, lengths in decimal.
#[must_use]
pub fn pae(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut out = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    out.extend_from_slice(payload);
    out
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Bundle {
    media_type: String,
    verification_material: Material,
    dsse_envelope: Envelope,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Material {
    public_key: Hint,
    /// Always empty: there is no transparency log here.
    tlog_entries: [(); 0],
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hint {
    hint: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvelopeSignature {
    keyid: String,
    sig: String,
}

/// Why a file is no signed statement of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    #[error("{0}")]
    Json(#[from] JsonError),
    #[error("its {0} is not `{1}`")]
    Type(&'static str, &'static str),
    #[error("it has {0} signatures, not one")]
    Signatures(usize),
    #[error("its {0} is not base64")]
    Base64(&'static str),
    #[error("its signature has not 64 bytes")]
    Length,
    #[error("its public key's hint is not 64 hex digits")]
    KeyId,
}

/// A statement as it lies in a bundle, read but not yet believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    pub payload: Vec<u8>,
    /// From the bundle's hint.
    pub key_id: KeyId,
    /// From the envelope's `keyid`.
    pub fingerprint: String,
    pub signature: [u8; SIGNATURE_LEN],
}

impl Sealed {
    /// Whether both names are this key's.
    #[must_use]
    pub fn names(&self, key: &PublicKey) -> bool {
        self.key_id == key.id() && self.fingerprint == key.fingerprint()
    }

    /// Whether the signature is this key's. The names are not looked at.
    #[must_use]
    pub fn is_by(&self, key: &PublicKey) -> bool {
        key.verifies(&pae(PAYLOAD_TYPE, &self.payload), &self.signature)
    }
}

/// Signs a statement's bytes and writes the Sigstore bundle, canonical and with a newline at its end.
pub fn seal(signer: &dyn Signer, payload: &[u8]) -> Result<Vec<u8>, SignError> {
    let signature = signer.sign(&pae(PAYLOAD_TYPE, payload))?;
    let public = signer.public();
    let bundle = Bundle {
        media_type: BUNDLE_TYPE.to_owned(),
        verification_material: Material {
            public_key: Hint { hint: public.id().to_string() },
            tlog_entries: [],
        },
        dsse_envelope: Envelope {
            payload: STANDARD.encode(payload),
            payload_type: PAYLOAD_TYPE.to_owned(),
            signatures: vec![EnvelopeSignature {
                keyid: public.fingerprint(),
                sig: STANDARD.encode(signature),
            }],
        },
    };
    // Strings only: nothing in it that canonical JSON could refuse.
    let mut out = canonical_json(&bundle).unwrap_or_default();
    out.push(b'\n');
    Ok(out)
}

/// Reads what [`seal`] wrote, and nothing else.
pub fn open(bytes: &[u8]) -> Result<Sealed, EnvelopeError> {
    let bytes = bytes.strip_suffix(b"\n").ok_or(JsonError::NotCanonical)?;
    let bundle: Bundle = read_exact(bytes)?;
    if bundle.media_type != BUNDLE_TYPE {
        return Err(EnvelopeError::Type("mediaType", BUNDLE_TYPE));
    }
    let envelope = bundle.dsse_envelope;
    if envelope.payload_type != PAYLOAD_TYPE {
        return Err(EnvelopeError::Type("payloadType", PAYLOAD_TYPE));
    }
    let [signature] = envelope.signatures.as_slice() else {
        return Err(EnvelopeError::Signatures(envelope.signatures.len()));
    };
    let raw = STANDARD.decode(&signature.sig).map_err(|_| EnvelopeError::Base64("signature"))?;
    Ok(Sealed {
        payload: STANDARD.decode(&envelope.payload).map_err(|_| EnvelopeError::Base64("payload"))?,
        key_id: bundle.verification_material.public_key.hint.parse().map_err(|_| EnvelopeError::KeyId)?,
        fingerprint: signature.keyid.clone(),
        signature: raw.try_into().map_err(|_| EnvelopeError::Length)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SecretKey;

    #[test]
    fn the_signed_bytes_are_those_of_the_specification() {
        // The example of DSSE's protocol.md.
        assert_eq!(pae("http://example.com/HelloWorld", b"hello world"), {
            b"DSSEv1 29 http://example.com/HelloWorld 11 hello world".to_vec()
        });
        assert_eq!(pae("", b""), b"DSSEv1 0  0 ");
        // Lengths are bytes, not letters.
        assert_eq!(pae("\u{e9}", b"\xff"), b"DSSEv1 2 \xc3\xa9 1 \xff");
    }

    #[test]
    fn an_envelope_reads_back_and_has_one_form() {
        let key = SecretKey::from_seed(&[5; 32]);
        let bytes = seal(&key, b"{}").unwrap();
        insta::assert_snapshot!(String::from_utf8(bytes.clone()).unwrap());
        let sealed = open(&bytes).unwrap();
        assert!(sealed.is_by(&key.public()) && sealed.names(&key.public()));
        assert!(!sealed.is_by(&SecretKey::from_seed(&[6; 32]).public()));
        let text = String::from_utf8(bytes).unwrap();
        let change = |from: &str, to: &str| open(text.replacen(from, to, 1).as_bytes()).unwrap_err();
        assert!(matches!(change("v0.3", "v0.2"), EnvelopeError::Type("mediaType", _)));
        assert!(matches!(change("vnd.in-toto", "vnd.other"), EnvelopeError::Type("payloadType", _)));
        assert!(matches!(change("e30=", "e30"), EnvelopeError::Base64("payload")));
        assert!(matches!(
            change("\"tlogEntries\":[]", "\"tlogEntries\":[1]"),
            EnvelopeError::Json(JsonError::Shape(_))
        ));
        assert!(matches!(change("\"hint\":\"", "\"hint\":\"0"), EnvelopeError::KeyId));
        assert!(matches!(change("{", "{\"a\":1,"), EnvelopeError::Json(JsonError::Shape(_))));
        assert!(matches!(change("\n", ""), EnvelopeError::Json(JsonError::NotCanonical)));
        let one = &text[text.find("{\"keyid\"").unwrap()..text.find("]},\"mediaType").unwrap()];
        assert_eq!(change(one, &format!("{one},{one}")), EnvelopeError::Signatures(2));
        assert_eq!(change(one, ""), EnvelopeError::Signatures(0));
    }
}
