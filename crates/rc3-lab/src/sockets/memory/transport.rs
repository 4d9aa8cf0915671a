//! The transports, and their settings.

use std::{net::SocketAddr, sync::Arc};

use clap::ValueEnum;
use data_encoding::HEXLOWER;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{Result, ends};

/// What carries the connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// This project, default settings.
    Rc3,
    /// This project without RLP.
    Rc3Off,
    /// quinn, default settings.
    Quinn,
}

impl Transport {
    /// The name on the command line and in the tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rc3 => "rc3",
            Self::Rc3Off => "rc3-off",
            Self::Quinn => "quinn",
        }
    }

    /// Serves until killed; clients may have so many open streams. Prints its address and its certificate.
    pub(crate) fn serve(self, streams: u32) -> Result<()> {
        match self {
            Self::Rc3 | Self::Rc3Off => ends::rc3::serve(self, streams),
            Self::Quinn => ends::quinn::serve(self, streams),
        }
    }

    /// Does what its input orders, until it ends.
    pub(crate) fn hold(self, address: SocketAddr, certificate: &str) -> Result<()> {
        match self {
            Self::Rc3 | Self::Rc3Off => ends::rc3::hold(self, address, certificate),
            Self::Quinn => ends::quinn::hold(self, address, certificate),
        }
    }
}

fn server_crypto() -> Result<(Arc<rustls::ServerConfig>, String)> {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let mut config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)?;
    config.alpn_protocols = vec![b"memory".to_vec()];
    Ok((Arc::new(config), HEXLOWER.encode(certified.cert.der())))
}

fn client_crypto(certificate: &str) -> Result<Arc<rustls::ClientConfig>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(HEXLOWER.decode(certificate.as_bytes())?))?;
    let mut config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"memory".to_vec()];
    // Sessions to resume are memory of the client, not of a connection.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// Endpoints of rc3.
pub(crate) mod rc3 {
    use rc3_net::{ClientConfig, Endpoint, RlpMode, ServerConfig, TransportConfig};

    use super::{Arc, Result, Transport};

    fn settings(transport: Transport, streams: u32) -> Arc<TransportConfig> {
        let mut config = TransportConfig::default();
        if transport == Transport::Rc3Off {
            config.rlp(RlpMode::Off);
        }
        config.max_idle_timeout(None).max_concurrent_bidi_streams(streams.into());
        Arc::new(config)
    }

    pub(crate) fn server(transport: Transport, streams: u32) -> Result<(Endpoint, String)> {
        let (crypto, certificate) = super::server_crypto()?;
        let mut config = ServerConfig::with_crypto(crypto);
        config.transport_config(settings(transport, streams));
        Ok((Endpoint::server(config, "127.0.0.1:0".parse()?)?, certificate))
    }

    pub(crate) fn client(transport: Transport, certificate: &str) -> Result<Endpoint> {
        let mut config = ClientConfig::new(super::client_crypto(certificate)?);
        config.transport_config(settings(transport, 1));
        let mut endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
        endpoint.set_default_client_config(config);
        Ok(endpoint)
    }
}

/// Endpoints of quinn.
pub(crate) mod quinn {
    use quinn::{
        ClientConfig, Endpoint, ServerConfig, TransportConfig,
        crypto::rustls::{QuicClientConfig, QuicServerConfig},
    };

    use super::{Arc, Result, Transport};

    fn settings(streams: u32) -> Arc<TransportConfig> {
        let mut config = TransportConfig::default();
        config.max_idle_timeout(None).max_concurrent_bidi_streams(streams.into());
        Arc::new(config)
    }

    pub(crate) fn server(_: Transport, streams: u32) -> Result<(Endpoint, String)> {
        let (crypto, certificate) = super::server_crypto()?;
        let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(crypto)?));
        config.transport_config(settings(streams));
        Ok((Endpoint::server(config, "127.0.0.1:0".parse()?)?, certificate))
    }

    pub(crate) fn client(_: Transport, certificate: &str) -> Result<Endpoint> {
        let crypto = QuicClientConfig::try_from(super::client_crypto(certificate)?)?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(settings(1));
        let mut endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
        endpoint.set_default_client_config(config);
        Ok(endpoint)
    }
}
