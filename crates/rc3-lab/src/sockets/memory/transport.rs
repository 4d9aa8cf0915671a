//! The transports, and their settings.

use std::{net::SocketAddr, sync::Arc};

use clap::ValueEnum;
use data_encoding::HEXLOWER;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{Result, ends, limits::Limits};

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

    /// Serves until killed. Prints its address and its certificate.
    pub(crate) fn serve(self, limits: Limits) -> Result<()> {
        match self {
            Self::Rc3 | Self::Rc3Off => ends::rc3::serve(self, limits),
            Self::Quinn => ends::quinn::serve(self, limits),
        }
    }

    /// Does what its input orders, until it ends.
    pub(crate) fn hold(self, address: SocketAddr, certificate: &str, limits: Limits) -> Result<()> {
        match self {
            Self::Rc3 | Self::Rc3Off => ends::rc3::hold(self, address, certificate, limits),
            Self::Quinn => ends::quinn::hold(self, address, certificate, limits),
        }
    }
}

/// Sets the windows by the methods that both libraries have.
macro_rules! set_windows {
    ($config:ident, $limits:ident) => {
        if let Some(bytes) = $limits.receive_window {
            $config.receive_window(bytes.into()).stream_receive_window((bytes / 3).into());
        }
        if let Some(bytes) = $limits.send_window {
            $config.send_window(bytes);
        }
    };
}
use set_windows;

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

    use super::{Arc, Limits, Result, Transport};

    fn settings(transport: Transport, limits: Limits) -> Arc<TransportConfig> {
        let mut config = TransportConfig::default();
        if transport == Transport::Rc3Off {
            config.rlp(RlpMode::Off);
        }
        config.max_idle_timeout(None).max_concurrent_bidi_streams(limits.streams.into());
        super::set_windows!(config, limits);
        Arc::new(config)
    }

    pub(crate) fn server(transport: Transport, limits: Limits) -> Result<(Endpoint, String)> {
        let (crypto, certificate) = super::server_crypto()?;
        let mut config = ServerConfig::with_crypto(crypto);
        config.transport_config(settings(transport, limits));
        let endpoint = Endpoint::server(config, "127.0.0.1:0".parse()?)?;
        if let Some(bytes) = limits.memory_max {
            endpoint.set_memory_max(bytes);
        }
        Ok((endpoint, certificate))
    }

    /// Bytes that peers made the endpoint hold, by its own count.
    pub(crate) fn held(endpoint: &Endpoint) -> u64 {
        endpoint.stats().held_bytes
    }

    pub(crate) fn client(transport: Transport, certificate: &str, limits: Limits) -> Result<Endpoint> {
        let mut config = ClientConfig::new(super::client_crypto(certificate)?);
        config.transport_config(settings(transport, limits));
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

    use super::{Arc, Limits, Result, Transport};

    fn settings(limits: Limits) -> Arc<TransportConfig> {
        let mut config = TransportConfig::default();
        config.max_idle_timeout(None).max_concurrent_bidi_streams(limits.streams.into());
        super::set_windows!(config, limits);
        Arc::new(config)
    }

    /// Bytes that peers made the endpoint hold: quinn does not count them.
    pub(crate) fn held(_: &Endpoint) -> u64 {
        0
    }

    pub(crate) fn server(_: Transport, limits: Limits) -> Result<(Endpoint, String)> {
        let (crypto, certificate) = super::server_crypto()?;
        let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(crypto)?));
        config.transport_config(settings(limits));
        Ok((Endpoint::server(config, "127.0.0.1:0".parse()?)?, certificate))
    }

    pub(crate) fn client(_: Transport, certificate: &str, limits: Limits) -> Result<Endpoint> {
        let crypto = QuicClientConfig::try_from(super::client_crypto(certificate)?)?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(settings(limits));
        let mut endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
        endpoint.set_default_client_config(config);
        Ok(endpoint)
    }
}
