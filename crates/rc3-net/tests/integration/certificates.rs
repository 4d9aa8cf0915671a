//! Certificates as they are in use: chains of 8 kB, from clients too, that change while the server runs; and peers that
//! have no protocol in common. With the key exchange that the provider prefers.

use std::sync::Arc;

use rc3_net::{
    ClientConfig, Connection, ConnectionError, Endpoint, ServerConfig, TransportErrorCode,
    crypto::{crypto_provider, rustls::HandshakeData},
    rustls::{
        self, RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer},
        server::WebPkiClientVerifier,
    },
};
use rcgen::{BasicConstraints, CertificateParams, CustomExtension, DnType, IsCa, Issuer, KeyPair};

use crate::common::{SERVER_NAME, code, pattern, receive, run, send};

/// Bytes of a long chain. Three times the first datagram, before an address is validated, are 3600 (RFC 9000 §8.1).
const LONG: usize = 8_000;
const ANY: &str = "127.0.0.1:0";
/// Codes of alerts (RFC 8446 §6).
const UNKNOWN_CA: u8 = 48;
const CERTIFICATE_REQUIRED: u8 = 116;
const NO_APPLICATION_PROTOCOL: u8 = 120;

/// A root, an authority below it, and what they have signed.
struct Authority {
    roots: Arc<RootCertStore>,
    below: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// A chain, the holder's certificate first, and its key.
struct Held(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn authority(name: &str, padding: usize) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Unknown to everybody, and not critical.
    params.custom_extensions = vec![CustomExtension::from_oid_content(&[2, 999, 1], vec![0; padding])];
    params
}

impl Authority {
    fn new(name: &str) -> Self {
        let (root_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let root = authority(name, 0);
        let mut roots = RootCertStore::empty();
        roots.add(root.self_signed(&root_key).unwrap().into()).unwrap();
        let params = authority(&format!("{name}, below"), LONG);
        let below = params.signed_by(&key, &Issuer::new(root, root_key)).unwrap().into();
        Self { roots: Arc::new(roots), below, issuer: Issuer::new(params, key) }
    }

    fn issue(&self) -> Held {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([SERVER_NAME.to_owned()]).unwrap();
        let chain = vec![params.signed_by(&key, &self.issuer).unwrap().into(), self.below.clone()];
        assert!(chain.iter().map(|certificate| certificate.len()).sum::<usize>() > LONG);
        Held(chain, PrivateKeyDer::Pkcs8(key.serialize_der().into()))
    }

    /// A client that trusts this authority.
    fn client(&self, alpn: &str, held: Option<Held>) -> Endpoint {
        let builder = rustls::ClientConfig::builder_with_provider(crypto_provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots.clone());
        let mut tls = match held {
            Some(Held(chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
            None => builder.with_no_client_auth(),
        };
        tls.alpn_protocols = vec![alpn.into()];
        let mut client = Endpoint::client(ANY.parse().unwrap()).unwrap();
        client.set_default_client_config(ClientConfig::new(Arc::new(tls)));
        client
    }

    /// Settings of a server with this certificate that wants one of this authority from clients, or none.
    fn server_config(&self, Held(chain, key): Held, mutual: bool) -> ServerConfig {
        let provider = crypto_provider();
        let verifier = match mutual {
            true => WebPkiClientVerifier::builder_with_provider(self.roots.clone(), provider.clone())
                .build()
                .unwrap(),
            false => WebPkiClientVerifier::no_client_auth(),
        };
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .unwrap();
        tls.alpn_protocols = vec!["test".into()];
        ServerConfig::with_crypto(Arc::new(tls))
    }

    fn server(&self, mutual: bool) -> Endpoint {
        Endpoint::server(self.server_config(self.issue(), mutual), ANY.parse().unwrap()).unwrap()
    }
}

/// What either side makes of an attempt; a client's counts once the server has answered.
async fn attempt(client: &Endpoint, server: &Endpoint) -> [Result<Connection, ConnectionError>; 2] {
    let connecting = client.connect(server.local_addr().unwrap(), SERVER_NAME).unwrap();
    let accepting = async { server.accept().await.unwrap().await };
    let (connected, accepted) = tokio::join!(connecting, accepting);
    let connected = match (connected, &accepted) {
        // It is connected before the server has seen its certificate (RFC 8446 §4.4.2).
        (Ok(connection), Err(_)) => Err(connection.closed().await),
        (connected, _) => connected,
    };
    [connected, accepted]
}

/// The chain that the peer has shown.
fn shown(connection: &Connection) -> Vec<CertificateDer<'static>> {
    *connection.peer_identity().expect("a chain").downcast().expect("of rustls")
}

/// Both name the alert, and its reason is in the error of the side that sent it.
fn assert_alert(alert: u8, sender: &ConnectionError, receiver: &ConnectionError, reason: &str) {
    let expected = TransportErrorCode::crypto(alert);
    let ConnectionError::TransportError(sent) = sender else { panic!("{sender:?}") };
    assert_eq!(sent.code, expected, "{sent}");
    assert!(sent.reason.contains(reason), "{sent}");
    let ConnectionError::ConnectionClosed(received) = receiver else { panic!("{receiver:?}") };
    assert_eq!(received.error_code, expected, "{received}");
}

async fn works(near: &Connection, far: &Connection) {
    let data = pattern(100_000, 6);
    let sending = async { send(near.open_uni().await.unwrap(), data.clone()).await };
    tokio::join!(sending, async { receive(far.accept_uni().await.unwrap(), &data).await });
}

#[test]
fn chains_of_8_kb_prove_both_sides() {
    run(async {
        let authority = Authority::new("ours");
        let held = authority.issue();
        let chain = held.0.clone();
        let (client, server) = (authority.client("test", Some(held)), authority.server(true));
        let [near, far] = attempt(&client, &server).await.map(Result::unwrap);
        assert_eq!(shown(&far), chain);
        assert!(near.is_rc3());
        works(&near, &far).await;
        works(&far, &near).await;
    });
}

#[test]
fn a_client_without_the_right_certificate_hears_which_one_is_missing() {
    run(async {
        let (authority, foreign) = (Authority::new("ours"), Authority::new("foreign"));
        let server = authority.server(true);
        let client = authority.client("test", None);
        let [near, far] = attempt(&client, &server).await.map(Result::unwrap_err);
        assert_alert(CERTIFICATE_REQUIRED, &far, &near, "peer sent no certificates");

        let client = authority.client("test", Some(foreign.issue()));
        let [near, far] = attempt(&client, &server).await.map(Result::unwrap_err);
        assert_alert(UNKNOWN_CA, &far, &near, "UnknownIssuer");

        // The server serves on.
        let client = authority.client("test", Some(authority.issue()));
        let [near, far] = attempt(&client, &server).await.map(Result::unwrap);
        works(&near, &far).await;
    });
}

#[test]
fn a_client_that_does_not_trust_the_server_says_so() {
    run(async {
        let client = Authority::new("ours").client("test", None);
        let server = Authority::new("foreign").server(false);
        let [near, far] = attempt(&client, &server).await.map(Result::unwrap_err);
        assert_alert(UNKNOWN_CA, &near, &far, "UnknownIssuer");
    });
}

#[test]
fn certificates_change_while_connections_live_on() {
    run(async {
        let authority = Authority::new("ours");
        let (client, server) = (authority.client("test", None), authority.server(false));
        let [near, far] = attempt(&client, &server).await.map(Result::unwrap);
        let held = authority.issue();
        let chain = held.0.clone();
        assert_ne!(shown(&near), chain);
        server.set_server_config(Some(authority.server_config(held, false))).unwrap();
        // A session of the old settings is not resumed, which would show the old certificate.
        let [later, later_far] = attempt(&client, &server).await.map(Result::unwrap);
        assert_eq!(shown(&later), chain);
        works(&near, &far).await;
        works(&later, &later_far).await;
        near.close(code(0), b"");
    });
}

#[test]
fn peers_without_a_common_protocol_both_say_so() {
    run(async {
        let authority = Authority::new("ours");
        let (client, server) = (authority.client("other", None), authority.server(false));
        let [near, far] = attempt(&client, &server).await.map(Result::unwrap_err);
        assert_alert(NO_APPLICATION_PROTOCOL, &far, &near, "peer doesn't support any known protocol");

        let client = authority.client("test", None);
        let [near, _] = attempt(&client, &server).await.map(Result::unwrap);
        let data: Box<HandshakeData> = near.handshake_data().unwrap().downcast().unwrap();
        assert_eq!(data.protocol.as_deref(), Some(&b"test"[..]));
    });
}
