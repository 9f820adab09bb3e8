//! TLS with keys for names.
//!
//! A certificate is only the envelope in which TLS carries a key: it is self-signed, its
//! names, dates and issuer mean nothing and are not looked at. What is checked is that the
//! handshake is TLS 1.3, that its signature was made by the key in the certificate, and on
//! the dialling side that the key is the one dialled, or follows it by the word of that
//! ([`KeyChange`]): a machine shows its changes of key behind its certificate, each in the place of one. The accepting side learns
//! the key and leaves to the application what it may do.

use crate::NodeIdentity;
use crate::key_change::{KEY_CHANGES_MAX, KeyChange, follow};
use rcgen::{CertificateParams, DistinguishedName, DnType, PKCS_ED25519, PublicKeyData};
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName as RawName, Error, PeerIncompatible, SignatureAlgorithm,
    SignatureScheme,
};
use std::sync::{Arc, Mutex, PoisonError};
use wayfs_types::NodeId;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Protocol offered in the handshake. Its number changes when peers of the old one could
/// not understand a connection at all.
pub(crate) const ALPN: &[u8] = b"wayfs/2";

/// The name that TLS wants in a greeting; it identifies nobody.
pub(crate) const SERVER_NAME: &str = "wayfs";

/// Object identifier of ed25519 keys (RFC 8410).
const OID_ED25519: &str = "1.3.101.112";

/// The certificate and key that this machine shows to others.
pub(crate) fn certified(identity: &NodeIdentity) -> Result<Arc<CertifiedKey>, rcgen::Error> {
    let mut params = CertificateParams::new(vec![SERVER_NAME.to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, SERVER_NAME);
    let key = HandshakeKey(Arc::clone(identity.pair()));
    let certificate = params.self_signed(&key)?;
    let mut chain = vec![certificate.der().clone()];
    chain.extend(identity.changes().iter().map(|change| CertificateDer::from(change.to_bytes().to_vec())));
    Ok(Arc::new(CertifiedKey::new(chain, Arc::new(key))))
}

pub(crate) fn server_config(own: &Arc<CertifiedKey>) -> Result<rustls::ServerConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(AnyKey { algorithms: provider.signature_verification_algorithms });
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(own))));
    config.alpn_protocols = vec![ALPN.to_vec()];
    // Each connection proves the key anew; a resumed one would only remember it.
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Ok(config)
}

pub(crate) fn client_config(
    own: &Arc<CertifiedKey>,
    expected: Arc<ExpectedKey>,
) -> Result<rustls::ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(expected)
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(own))));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_early_data = false;
    Ok(config)
}

/// The key in a certificate, if it is an ed25519 key.
pub(crate) fn key_in(certificate: &CertificateDer<'_>) -> Option<NodeId> {
    let (rest, parsed) = X509Certificate::from_der(certificate).ok()?;
    let info = parsed.public_key();
    if !rest.is_empty() || info.algorithm.algorithm.to_id_string() != OID_ED25519 {
        return None;
    }
    let key: [u8; 32] = info.subject_public_key.data.as_ref().try_into().ok()?;
    Some(NodeId::from_bytes(key))
}

/// Lets rcgen and rustls sign with the one key pair, so that no copy of it is made.
#[derive(Clone)]
struct HandshakeKey(Arc<Ed25519KeyPair>);

impl std::fmt::Debug for HandshakeKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HandshakeKey")
    }
}

impl PublicKeyData for HandshakeKey {
    fn der_bytes(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &PKCS_ED25519
    }
}

impl rcgen::SigningKey for HandshakeKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(self.0.sign(message).as_ref().to_vec())
    }
}

impl rustls::sign::SigningKey for HandshakeKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn rustls::sign::Signer>> {
        offered.contains(&SignatureScheme::ED25519).then(|| Box::new(self.clone()) as Box<dyn rustls::sign::Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl rustls::sign::Signer for HandshakeKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(self.0.sign(message).as_ref().to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}

/// The dialling side's check: the peer must hold the one key expected, or one that follows it.
#[derive(Debug)]
pub(crate) struct ExpectedKey {
    expected: NodeId,
    algorithms: WebPkiSupportedAlgorithms,
    /// A key that was shown instead, for the error message.
    other: Mutex<Option<NodeId>>,
}

impl ExpectedKey {
    pub(crate) fn new(expected: NodeId) -> Arc<Self> {
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        Arc::new(Self { expected, algorithms, other: Mutex::new(None) })
    }

    /// The wrong key that a peer showed, if one did.
    pub(crate) fn other(&self) -> Option<NodeId> {
        *self.other.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the key is the one expected, or follows it by the changes that were shown.
    fn leads_to(&self, key: NodeId, shown: &[CertificateDer<'_>]) -> bool {
        let changes =
            || shown.iter().take(KEY_CHANGES_MAX).filter_map(|shown| KeyChange::try_from(shown.as_ref()).ok());
        key == self.expected || follow(&changes().collect::<Vec<_>>(), self.expected) == key
    }
}

impl ServerCertVerifier for ExpectedKey {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match key_in(end_entity) {
            Some(key) if self.leads_to(key, intermediates) => Ok(ServerCertVerified::assertion()),
            Some(key) => {
                *self.other.lock().unwrap_or_else(PoisonError::into_inner) = Some(key);
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
            None => Err(CertificateError::BadEncoding.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOfferedOrEnabled.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

/// The accepting side's check: any ed25519 key will do, but it must be shown and proved.
#[derive(Debug)]
struct AnyKey {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AnyKey {
    fn root_hint_subjects(&self) -> &[RawName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match key_in(end_entity) {
            Some(_) => Ok(ClientCertVerified::assertion()),
            None => Err(CertificateError::BadEncoding.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOfferedOrEnabled.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}
