//! What the environment asks for, as quic-interop-runner sets it.

use std::{
    env,
    error::Error,
    fs, io,
    net::{SocketAddr, ToSocketAddrs},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use rc3_net::rustls::{
    self, ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    quic::Suite,
};

/// What any part of this program may end with.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// HTTP/0.9 as the runner uses it: `GET /name`, and the file until the stream ends.
pub(crate) const HQ: &[u8] = b"hq-interop";

/// Values of `TESTCASE` that this program has.
const CASES: [&str; 11] = [
    "handshake",
    "transfer",
    "retry",
    "resumption",
    "zerortt",
    "http3",
    "multiconnect",
    "chacha20",
    "keyupdate",
    "ecn",
    "connectionmigration",
];

/// One run of a client or server.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// `TESTCASE`.
    pub(crate) case: String,
    /// `REQUESTS`: where to fetch what. All are of one server.
    pub(crate) requests: Vec<String>,
    /// Files that a server has, where a client puts them, and certificates.
    pub(crate) www: PathBuf,
    pub(crate) downloads: PathBuf,
    pub(crate) certs: PathBuf,
    /// Where a server listens.
    pub(crate) listen: SocketAddr,
    /// `CLIENT_PARAMS` is `h3`: HTTP/3 in all cases, for servers without HTTP/0.9.
    pub(crate) is_http3: bool,
    /// `SERVER_PARAMS`: the address clients are asked to move to in `connectionmigration`.
    pub(crate) preferred: Option<SocketAddr>,
    pub(crate) seen: Arc<Seen>,
}

/// How often happened what a case is about.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Servers asked for a token.
    pub(crate) retries: AtomicU32,
    /// Clients were shown a certificate: their sessions were not resumed.
    pub(crate) certificates: AtomicU32,
    /// Servers took 0-RTT.
    pub(crate) early: AtomicU32,
    /// Clients updated keys.
    pub(crate) updates: AtomicU32,
}

impl Job {
    /// That of the environment; `None` if this program does not have the case.
    pub(crate) fn of_environment() -> Result<Option<Self>> {
        let of = |name: &str| env::var(name).unwrap_or_default();
        let case = of("TESTCASE");
        if !CASES.contains(&case.as_str()) {
            return Ok(None);
        }
        Ok(Some(Self {
            requests: of("REQUESTS").split_whitespace().map(str::to_owned).collect(),
            www: "/www".into(),
            downloads: "/downloads".into(),
            certs: "/certs".into(),
            listen: "[::]:443".parse()?,
            is_http3: case == "http3" || of("CLIENT_PARAMS") == "h3",
            preferred: Some(of("SERVER_PARAMS"))
                .filter(|text| !text.is_empty())
                .map(|text| text.parse())
                .transpose()?,
            seen: Arc::default(),
            case,
        }))
    }

    /// Name and address of the server.
    pub(crate) fn server(&self) -> Result<(String, SocketAddr)> {
        let (authority, _) =
            self.requests.first().and_then(|url| parts(url)).ok_or("REQUESTS names no https:// URL")?;
        let (name, port) = match authority.rsplit_once(':') {
            Some((name, port)) => (name, port.parse()?),
            None => (authority, 443),
        };
        let address = (name, port).to_socket_addrs()?.next().ok_or("the server has no address")?;
        Ok((name.to_owned(), address))
    }

    /// Writes what came for a URL.
    pub(crate) fn save(&self, url: &str, content: &[u8]) -> Result<()> {
        Ok(fs::write(self.downloads.join(file_name(path_of(url)?)?), content)?)
    }

    /// The file of a request: none outside of the folder.
    pub(crate) fn read(&self, path: &str) -> Result<Vec<u8>> {
        Ok(fs::read(self.www.join(file_name(path)?))?)
    }

    /// TLS of a client.
    pub(crate) fn client_tls(&self) -> Result<ClientConfig> {
        let provider = self.provider();
        let mut tls = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider, self.seen.clone())))
            .with_no_client_auth();
        tls.alpn_protocols = vec![if self.is_http3 { rc3_h3::ALPN.to_vec() } else { HQ.to_vec() }];
        tls.enable_early_data = self.case == "zerortt";
        tls.key_log = rc3_net::key_log();
        Ok(tls)
    }

    /// TLS of a server.
    pub(crate) fn server_tls(&self) -> Result<ServerConfig> {
        let chain = CertificateDer::pem_file_iter(self.certs.join("cert.pem"))?
            .collect::<std::result::Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_file(self.certs.join("priv.key"))?;
        let mut tls = ServerConfig::builder_with_provider(self.provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        tls.alpn_protocols = vec![HQ.to_vec(), rc3_h3::ALPN.to_vec()];
        tls.max_early_data_size = if self.case == "zerortt" { u32::MAX } else { 0 };
        tls.key_log = rc3_net::key_log();
        Ok(tls)
    }

    fn provider(&self) -> Arc<CryptoProvider> {
        let mut provider = ring::default_provider();
        if self.case == "chacha20" {
            provider.cipher_suites = vec![ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256];
        }
        Arc::new(provider)
    }
}

/// The cipher of Initial packets, also where TLS does not offer it.
pub(crate) fn initial_suite() -> Suite {
    let suite = ring::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite());
    suite.expect("ring is for QUIC")
}

/// Authority and path of a URL.
fn parts(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("https://")?;
    Some(rest.split_at(rest.find('/')?))
}

pub(crate) fn path_of(url: &str) -> Result<&str> {
    Ok(parts(url).ok_or("not an https:// URL with a path")?.1)
}

fn file_name(path: &str) -> io::Result<&Path> {
    let name = Path::new(path.trim_start_matches('/'));
    let is_plain = name.file_name() == Some(name.as_os_str());
    if is_plain { Ok(name) } else { Err(io::Error::new(io::ErrorKind::NotFound, "not a plain file name")) }
}

/// Accepts every certificate, as clients of the runner do: its chains are thrown away after the run, and longer than
/// webpki follows.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>, Arc<Seen>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        self.1.certificates.fetch_add(1, Relaxed);
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("QUIC has TLS 1.3".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
