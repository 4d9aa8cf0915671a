//! TLS and transport settings of streams.

use std::{io, path::Path, sync::Arc, time::Duration};

use pyo3::{PyResult, exceptions::PyValueError};
use rc3::cli::{high, low::RlpChoice};
use rc3_net::{
    ClientConfig, ServerConfig, TransportConfig, VarInt,
    rustls::{
        RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject},
    },
};

/// Most bytes of a connection that wait for sending, and most that wait for the reader: enough for 1 Gbit/s x 130 ms.
const WINDOW: u32 = 16 << 20;

/// A client that trusts the certificates in the file `ca`, or those of the system.
pub(crate) fn client(ca: Option<&Path>, transport: TransportConfig) -> io::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| of_file(path, error))?;
            }
        }
        // Some of a system's files are often unreadable; those that remain decide.
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    let nothing = |_| io::Error::new(io::ErrorKind::NotFound, "no trusted certificates; pass a file as ca");
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots)).map_err(nothing)?;
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// A server with the certificate chain and the key in these files.
pub(crate) fn server(certificate: &Path, key: &Path, transport: TransportConfig) -> io::Result<ServerConfig> {
    let chain = certificates(certificate)?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?;
    let mut config = ServerConfig::with_single_cert(chain, secret).map_err(|error| of_file(key, error))?;
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// A peer that is silent for `idle_timeout` seconds is gone. `rlp` is as on the command line.
pub(crate) fn transport(idle_timeout: f64, rlp: &str) -> PyResult<TransportConfig> {
    let rlp = <RlpChoice as clap::ValueEnum>::from_str(rlp, false)
        .map_err(|_| PyValueError::new_err("rlp is not guard, trust or off"))?;
    // QUIC counts milliseconds, of which none means no limit.
    let idle = Duration::try_from_secs_f64(idle_timeout).ok().filter(|time| time.as_millis() > 0);
    let wrong = || PyValueError::new_err("idle_timeout is not a number of seconds from 0.001 on");
    let idle = idle.ok_or_else(wrong)?;
    let mut transport = TransportConfig::default();
    transport
        .rlp(high::rlp(rlp))
        .max_idle_timeout(idle.try_into().ok())
        // An open stream stays open without traffic, as over TCP.
        .keep_alive_interval(Some(idle / 10 * 3))
        .receive_window(WINDOW.into())
        .send_window(WINDOW.into())
        // A connection carries one stream, which the client opens.
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(0));
    Ok(transport)
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(none) if none.is_empty() => Err(of_file(path, "no certificate in PEM")),
        read => read.map_err(|error| unreadable(path, error)),
    }
}

fn unreadable(path: &Path, error: pem::Error) -> io::Error {
    match error {
        pem::Error::Io(error) => io::Error::new(error.kind(), format!("{}: {error}", path.display())),
        error => of_file(path, error),
    }
}

fn of_file(path: &Path, fault: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {fault}", path.display()))
}
